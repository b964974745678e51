package labcloud

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// imageRecord is an image as Glance keeps it.
type imageRecord struct {
	id, name string
	// status is "active", or "queued" and "saving" for an unfinished snapshot.
	status string
	// visibility is "public" for the images in Config, and "private" for snapshots.
	visibility       string
	created, updated time.Time
	// properties are the additional properties, which Glance does not define.
	properties map[string]string
}

func newImage(id, name string) *imageRecord {
	now := time.Now()
	return &imageRecord{id: id, name: name, status: "active", visibility: "public", created: now, updated: now}
}

func (c *Cloud) imageRoutes() []route {
	return []route{
		{image, "GET /image/{$}", true, func(r *request) (reply, error) {
			return reply{status: http.StatusMultipleChoices, body: object{"versions": []object{{
				"id": "v2.15", "status": "CURRENT",
				"links": []object{{"rel": "self", "href": r.base + "/image/v2/"}},
			}}}}, nil
		}},
		{image, "GET /image/v2/images", false, c.listImages},
		{image, "GET /image/v2/images/{id}", false, c.showImage},
		{image, "DELETE /image/v2/images/{id}", false, c.deleteImage},
	}
}

// glancePageSize is Glance's default page size.
const glancePageSize = 25

// listImages lists images, newest first. It accepts "sort" and the like only for this order.
func (c *Cloud) listImages(r *request) (reply, error) {
	q := r.URL.Query()
	p, err := takePaging(q, maxPage)
	if err != nil {
		return reply{}, err
	}
	if !r.URL.Query().Has("limit") {
		p.limit = glancePageSize
	}
	if err := checkImageQuery(q); err != nil {
		return reply{}, err
	}
	found, next, err := page(c.state.images.newest(), p, func(i *imageRecord) bool { return c.imageMatches(i, q) })
	if err != nil {
		return reply{}, err
	}
	views := []object{}
	for _, i := range found {
		views = append(views, c.imageView(i))
	}
	first := r.URL.Query()
	first.Del("marker")
	body := object{"images": views, "schema": "/v2/schemas/images", "first": glancePath(first)}
	if next != "" {
		first.Set("marker", next)
		body["next"] = glancePath(first)
	}
	return ok(body), nil
}

// glancePath is the address of a list as Glance returns it, relative to the endpoint.
func glancePath(q url.Values) string {
	if len(q) == 0 {
		return "/v2/images"
	}
	return "/v2/images?" + q.Encode()
}

// checkImageQuery rejects filters that imageMatches does not know.
func checkImageQuery(q url.Values) error {
	known := []string{"name", "status", "visibility", "owner", "id", "tag"}
	inOrder := map[string]string{"sort": "created_at:desc", "sort_key": "created_at", "sort_dir": "desc"}
	for name := range q {
		if !slices.Contains(known, name) && inOrder[name] != q.Get(name) {
			return badRequest("labcloud does not filter or sort images by %s=%s", name, q.Get(name))
		}
	}
	return nil
}

// imageMatches reports whether an image matches all filters; "in:a,b" matches either. MariaDB compares text without
// case.
func (c *Cloud) imageMatches(i *imageRecord, q url.Values) bool {
	attributes := map[string]string{
		"name": i.name, "status": i.status, "visibility": i.visibility, "owner": c.projectID, "id": i.id,
	}
	for name := range q {
		wanted := []string{q.Get(name)}
		if list, ok := strings.CutPrefix(q.Get(name), "in:"); ok {
			wanted = strings.Split(list, ",")
		}
		has, known := attributes[name]
		same := func(value string) bool { return strings.EqualFold(value, has) }
		if name == "tag" || known && !slices.ContainsFunc(wanted, same) && !(name == "visibility" && wanted[0] == "all") {
			return false
		}
	}
	return true
}

// imageView is an image as Glance shows it. A snapshot has no size before it is finished. The sizes and hashes are made
// up.
func (c *Cloud) imageView(i *imageRecord) object {
	v := object{
		"id": i.id, "name": i.name, "status": i.status, "visibility": i.visibility, "owner": c.projectID,
		"protected": false, "os_hidden": false, "min_ram": 0, "min_disk": 0, "tags": []string{},
		"disk_format": nil, "container_format": nil, "size": nil, "virtual_size": nil,
		"checksum": nil, "os_hash_algo": nil, "os_hash_value": nil,
		"created_at": seconds(i.created), "updated_at": seconds(i.updated),
		"self": "/v2/images/" + i.id, "file": "/v2/images/" + i.id + "/file", "schema": "/v2/schemas/image",
	}
	if i.status == "active" {
		for name, value := range map[string]any{
			"disk_format": "raw", "container_format": "bare", "size": 1 << 15, "virtual_size": 1 << 15,
			"checksum": hexID(i.id), "os_hash_algo": "sha512", "os_hash_value": strings.Repeat(hexID(i.id), 4),
		} {
			v[name] = value
		}
	}
	for name, value := range i.properties {
		v[name] = value
	}
	return v
}

// findImage finds the image named in a path.
func (c *Cloud) findImage(r *request) (*imageRecord, error) {
	i, found := c.state.images.get(r.PathValue("id"))
	if !found {
		return nil, notFound("", "No image found with ID %s", r.PathValue("id"))
	}
	return i, nil
}

func (c *Cloud) showImage(r *request) (reply, error) {
	i, err := c.findImage(r)
	if err != nil {
		return reply{}, err
	}
	return ok(c.imageView(i)), nil
}

// deleteImage forgets an image. Servers that were made from it keep running.
func (c *Cloud) deleteImage(r *request) (reply, error) {
	i, err := c.findImage(r)
	if err != nil {
		return reply{}, err
	}
	c.state.images.remove(i.id)
	return noContent(), nil
}
