package labcloud

import (
	"net/http"
	"strconv"
)

// labRoutes are the cloud's own paths, for the lab's command line and tests. Faults and counts have their own mutexes,
// so these handlers may run while the cloud's mutex is locked.
func (c *Cloud) labRoutes() []route {
	return []route{
		{lab, "GET /lab/faults", true, func(*request) (reply, error) {
			return ok(object{"faults": c.faults.List()}), nil
		}},
		{lab, "POST /lab/faults", true, c.orderFault},
		{lab, "DELETE /lab/faults", true, func(*request) (reply, error) {
			c.faults.Clear(0)
			return noContent(), nil
		}},
		{lab, "DELETE /lab/faults/{id}", true, c.clearFault},
		{lab, "GET /lab/calls", true, func(*request) (reply, error) {
			return ok(object{"calls": c.calls.snapshot()}), nil
		}},
		{lab, "GET /lab/servers", true, func(*request) (reply, error) {
			return ok(object{"servers": c.serverList()}), nil
		}},
	}
}

// orderFault adds a Fault, given as JSON, and answers with its id.
func (c *Cloud) orderFault(r *request) (reply, error) {
	var f Fault
	if err := r.decode(&f); err != nil {
		return reply{}, err
	}
	id, err := c.faults.Add(f)
	if err != nil {
		return reply{}, badRequest("%s", err)
	}
	return created(object{"id": id}), nil
}

func (c *Cloud) clearFault(r *request) (reply, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id == 0 || !c.faults.Clear(id) {
		return reply{}, &problem{code: http.StatusNotFound, message: "there is no fault " + r.PathValue("id")}
	}
	return noContent(), nil
}
