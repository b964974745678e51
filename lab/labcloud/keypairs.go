package labcloud

import (
	"net/http"
	"time"

	"golang.org/x/crypto/ssh"
)

// keypair is the public half of a key pair. The cloud generates none.
type keypair struct {
	name, public, kind, fingerprint string
	created                         time.Time
}

func (c *Cloud) keypairRoutes() []route {
	return []route{
		{compute, "GET /compute/v2.1/os-keypairs", false, c.listKeypairs},
		{compute, "POST /compute/v2.1/os-keypairs", false, c.importKeypair},
		{compute, "GET /compute/v2.1/os-keypairs/{id}", false, c.showKeypair},
		{compute, "DELETE /compute/v2.1/os-keypairs/{id}", false, c.deleteKeypair},
	}
}

// view is the keypair as lists and imports show it.
func (k *keypair) view(r *request) object {
	v := object{"name": k.name, "public_key": k.public, "fingerprint": k.fingerprint}
	if r.version >= 2 {
		v["type"] = k.kind
	}
	return v
}

func (c *Cloud) listKeypairs(r *request) (reply, error) {
	views := []object{}
	for _, k := range c.keypairs.all() {
		views = append(views, object{"keypair": k.view(r)})
	}
	return ok(object{"keypairs": views}), nil
}

// importKeypair imports a public key. The cloud generates no keys, like Nova since 2.92.
func (c *Cloud) importKeypair(r *request) (reply, error) {
	var ask struct {
		Keypair struct {
			Name      string `json:"name"`
			PublicKey string `json:"public_key"`
			Type      string `json:"type"`
			UserID    string `json:"user_id"`
		} `json:"keypair"`
	}
	if err := r.decode(&ask); err != nil {
		return reply{}, err
	}
	k := ask.Keypair
	switch {
	case k.Name == "":
		return reply{}, badRequest("Invalid input for field/attribute name. Value: . '' is too short")
	case k.PublicKey == "":
		return reply{}, badRequest("'public_key' is a required property")
	case k.Type != "" && k.Type != "ssh":
		return reply{}, badRequest("Invalid input for field/attribute type. Value: %s.", k.Type)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(k.PublicKey))
	if err != nil {
		return reply{}, badRequest("Keypair data is invalid: failed to generate fingerprint")
	}
	if _, taken := c.keypairs.get(k.Name); taken {
		return reply{}, conflict("", "Key pair '%s' already exists.", k.Name)
	}
	if limit := c.computeQuota["key_pairs"]; limit >= 0 && c.keypairs.size() >= limit {
		return reply{}, forbidden("Quota exceeded, too many key pairs.")
	}
	added := &keypair{
		name: k.Name, public: k.PublicKey, kind: "ssh",
		fingerprint: ssh.FingerprintLegacyMD5(key), created: time.Now(),
	}
	c.keypairs.add(k.Name, added)
	view := added.view(r)
	view["user_id"] = c.userID
	if r.version < 2 {
		return ok(object{"keypair": view}), nil
	}
	return created(object{"keypair": view}), nil
}

// findKeypair finds the key named in a path.
func (c *Cloud) findKeypair(r *request) (*keypair, error) {
	k, found := c.keypairs.get(r.PathValue("id"))
	if !found {
		return nil, notFound("", "Keypair %s not found for user %s", r.PathValue("id"), c.userID)
	}
	return k, nil
}

func (c *Cloud) showKeypair(r *request) (reply, error) {
	k, err := c.findKeypair(r)
	if err != nil {
		return reply{}, err
	}
	v := k.view(r)
	v["user_id"], v["id"] = c.userID, 1
	v["created_at"], v["updated_at"] = micro(k.created), nil
	v["deleted"], v["deleted_at"] = false, nil
	return ok(object{"keypair": v}), nil
}

func (c *Cloud) deleteKeypair(r *request) (reply, error) {
	k, err := c.findKeypair(r)
	if err != nil {
		return reply{}, err
	}
	c.keypairs.remove(k.name)
	if r.version < 2 {
		return reply{status: http.StatusAccepted}, nil
	}
	return noContent(), nil
}
