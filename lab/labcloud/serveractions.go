package labcloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// actionName returns the action that a body asks for, which is its only key.
func actionName(body []byte) (name string, args json.RawMessage) {
	var ask map[string]json.RawMessage
	if json.Unmarshal(body, &ask) != nil || len(ask) != 1 {
		return "", nil
	}
	for name, args = range ask {
	}
	return name, args
}

// action is a function that carries out one action on a server.
type action func(c *Cloud, r *request, s *server) (reply, error)

// serverActions are the actions that the cloud supports.
var serverActions = map[string]action{
	"reboot":        (*Cloud).reboot,
	"rebuild":       (*Cloud).rebuild,
	"resize":        (*Cloud).resize,
	"confirmResize": (*Cloud).confirmResize,
	"revertResize":  transition("revertResize", (*Cloud).beginRevert, vmResized),
	"os-start":      transition("start", (*Cloud).beginStart, vmStopped),
	"os-stop":       transition("stop", (*Cloud).beginStop, vmActive, vmError),
	// As in Nova's default, a shelved server leaves its host at once (shelved_offload_time).
	"shelve":              transition("shelve", (*Cloud).beginShelve, vmActive, vmStopped),
	"unshelve":            transition("unshelve", (*Cloud).beginUnshelve, vmShelved),
	"createImage":         (*Cloud).createImage,
	"os-getConsoleOutput": (*Cloud).consoleOutput,
	"lock":                (*Cloud).lock,
	"unlock":              (*Cloud).unlock,
	"forceDelete":         (*Cloud).forceDelete,
	"addSecurityGroup":    (*Cloud).addServerGroup,
	"removeSecurityGroup": (*Cloud).removeServerGroup,
}

// actOnServer finds the server and the action, and carries the action out.
func (c *Cloud) actOnServer(r *request) (reply, error) {
	name, _ := actionName(r.body)
	s, err := c.findServer(r)
	if err != nil {
		if name == "os-start" || name == "os-stop" {
			err = noMapping(r)
		}
		return reply{}, err
	}
	act, known := serverActions[name]
	if !known {
		return reply{}, badRequest("There is no such action: %s", name)
	}
	return act(c, r, s)
}

// noMapping is the text of some of Nova's errors for a server that does not exist.
func noMapping(r *request) error {
	return notFound("", "Instance %s has no mapping to a cell.", r.PathValue("id"))
}

// arguments decodes the arguments of an action. Null means none.
func arguments[T any](r *request) (T, error) {
	var ask map[string]T
	err := r.decode(&ask)
	name, _ := actionName(r.body)
	return ask[name], err
}

// checkLock returns an error for a locked server, which only an operator could change.
func (s *server) checkLock() error {
	if s.locked {
		return conflict("", "Instance %s is locked", s.id)
	}
	return nil
}

// allow returns an error if a server is locked or checkState rejects the action.
func (s *server) allow(action string, states ...vmState) error {
	if err := s.checkLock(); err != nil {
		return err
	}
	if s.vm == vmShelved && (action == "start" || action == "stop") {
		return conflict("", "Instance %s is not ready", s.id) // Nova checks first whether the server has a host
	}
	return s.checkState(action, states...)
}

// checkState returns an error for a server that is not in one of the states, has a running task, or never got a host.
func (s *server) checkState(action string, states ...vmState) error {
	if !slices.Contains(states, s.vm) {
		return conflict("", "Cannot '%s' instance %s while it is in vm_state %s", action, s.id, s.vm)
	}
	if s.task != "" {
		return conflict("", "Cannot '%s' instance %s while it is in task_state %s", action, s.id, s.task)
	}
	if !s.placed {
		return conflict("", "Instance %s is in an invalid state for '%s'", s.id, action)
	}
	return nil
}

// reboot restarts a server. A hard reboot also ends ERROR and a stuck soft reboot.
func (c *Cloud) reboot(r *request, s *server) (reply, error) {
	args, err := arguments[struct {
		Type string `json:"type"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	kinds := []string{"HARD", "Hard", "hard", "SOFT", "Soft", "soft"}
	hard := slices.Contains(kinds[:3], args.Type)
	if !slices.Contains(kinds, args.Type) {
		return reply{}, badRequest(
			"Invalid input for field/attribute type. Value: %s. '%[1]s' is not one of "+
				"['HARD', 'Hard', 'hard', 'SOFT', 'Soft', 'soft']", args.Type,
		)
	}
	switch {
	case !hard:
		err = s.allow("reboot", vmActive)
	case s.task == "rebooting":
		err = s.checkLock()
	default:
		err = s.allow("reboot", vmActive, vmStopped, vmError)
	}
	if err != nil {
		return reply{}, err
	}
	s.note(r, "reboot")
	c.beginReboot(r.Context(), s, hard)
	return accepted(nil), nil
}

// rebuild gives a server a new disk and keeps its id, ports and addresses.
func (c *Cloud) rebuild(r *request, s *server) (reply, error) {
	args, err := arguments[struct {
		ImageRef    string             `json:"imageRef"`
		Name        *string            `json:"name"`
		Description *string            `json:"description"`
		Metadata    *map[string]string `json:"metadata"`
		AdminPass   string             `json:"adminPass"`
		DiskConfig  string             `json:"OS-DCF:diskConfig"`
		UserData    *string            `json:"user_data"`
		KeyName     *string            `json:"key_name"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	if img, known := c.state.images.get(args.ImageRef); !known || img.status != "active" {
		return reply{}, badRequest("Cannot find image for rebuild")
	}
	if err := s.allow("rebuild", vmActive, vmStopped, vmError); err != nil {
		return reply{}, err
	}
	userData, key := s.userData, s.key
	if args.UserData != nil {
		if userData, err = decodeUserData(*args.UserData); err != nil {
			return reply{}, err
		}
	}
	if args.KeyName != nil {
		k, found := c.keypairs.get(*args.KeyName)
		if !found {
			return reply{}, badRequest("Invalid key_name provided.")
		}
		key = k.public
	}
	s.image, s.userData, s.key = args.ImageRef, userData, key
	set(&s.keyName, args.KeyName)
	set(&s.name, args.Name)
	set(&s.description, args.Description)
	set(&s.metadata, args.Metadata)
	s.build = c.faults.onBuild(r.label, s.name, s.zone)
	s.note(r, "rebuild")
	c.beginRebuild(r.Context(), s)
	answer := accepted(object{"server": c.rebuildView(r, s)})
	answer.header = map[string]string{"Location": r.base + "/compute/v2.1/servers/" + s.id}
	return answer, nil
}

// resize moves a server to another flavor.
func (c *Cloud) resize(r *request, s *server) (reply, error) {
	args, err := arguments[struct {
		FlavorRef  string `json:"flavorRef"`
		DiskConfig string `json:"OS-DCF:diskConfig"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	to, known := c.state.flavors.get(args.FlavorRef)
	if !known {
		return reply{}, badRequest("Flavor %s could not be found.", args.FlavorRef)
	}
	if to.ID == s.flavor.ID {
		return reply{}, badRequest("When resizing, instances must change flavor!")
	}
	if err := s.allow("resize", vmActive, vmStopped); err != nil {
		return reply{}, err
	}
	more := to.takes().minus(s.flavor.takes())
	if err := checkQuota(c.computeQuota, c.used, more); err != nil {
		return reply{}, err
	}
	s.note(r, "resize")
	c.beginResize(r.Context(), s, to)
	return accepted(nil), nil
}

// confirmResize makes a resize final, at once.
func (c *Cloud) confirmResize(r *request, s *server) (reply, error) {
	if err := s.allow("confirmResize", vmResized); err != nil {
		return reply{}, err
	}
	s.note(r, "confirmResize")
	s.vm, s.oldFlavor = s.beforeResize, nil
	return noContent(), nil
}

// transition returns the action with a name, which only begins a change of a server in one of the states.
func transition(name string, begin func(*Cloud, context.Context, *server), states ...vmState) action {
	return func(c *Cloud, r *request, s *server) (reply, error) {
		if err := s.allow(name, states...); err != nil {
			return reply{}, err
		}
		s.note(r, name)
		begin(c, r.Context(), s)
		return accepted(nil), nil
	}
}

// createImage takes a snapshot. From 2.45 on, the answer has a body in place of a header. A locked server allows it.
func (c *Cloud) createImage(r *request, s *server) (reply, error) {
	args, err := arguments[struct {
		Name     string            `json:"name"`
		Metadata map[string]string `json:"metadata"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	if args.Name == "" {
		return reply{}, badRequest("Invalid input for field/attribute name. Value: . '' is too short")
	}
	if err := s.checkState("createImage", vmActive, vmStopped); err != nil {
		return reply{}, err
	}
	i := newImage(uuid.NewString(), args.Name)
	i.visibility = "private"
	i.properties = map[string]string{
		"base_image_ref": s.image, "instance_uuid": s.id, "image_type": "snapshot", "user_id": c.userID,
		"owner_user_name": c.cfg.User, "owner_project_name": c.cfg.Project, "boot_roles": "reader,member",
	}
	for k, v := range args.Metadata {
		i.properties[k] = v
	}
	c.state.images.add(i.id, i)
	s.note(r, "createImage")
	c.beginSnapshot(r.Context(), s, i)
	if r.version >= 45 {
		return accepted(object{"image_id": i.id}), nil
	}
	answer := accepted(nil)
	answer.header = map[string]string{"Location": r.base + "/image//images/" + i.id}
	return answer, nil
}

// consoleOutput asks the hypervisor, which may read a file; meanwhile other calls can run.
func (c *Cloud) consoleOutput(r *request, s *server) (reply, error) {
	args, err := arguments[struct {
		Length any `json:"length"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	length := 0
	if args.Length != nil {
		if length, err = strconv.Atoi(fmt.Sprint(args.Length)); err != nil {
			return reply{}, badRequest("Invalid input for field/attribute length. Value: %v. '%[1]v' does not match "+
				"'^-?[0-9]+$'", args.Length)
		}
	}
	if !s.placed {
		return reply{}, conflict("", "Instance %s is not ready", s.id)
	}
	truncated := s.build.flags[FlagTruncatedConsole]
	return reply{status: http.StatusOK, late: func() (any, error) {
		text, err := c.hypervisor.Console(s.id, length)
		if truncated {
			text = afterFirstKey(text)
		}
		return object{"output": text}, err
	}}, nil
}

// afterFirstKey returns the end of a console log, from the line after the first host key on; the whole log if there is
// no key.
func afterFirstKey(text string) string {
	_, after, found := strings.Cut(text, "BEGIN SSH HOST KEY KEYS-----")
	if !found {
		return text
	}
	lines := strings.SplitAfterN(after, "\n", 3)
	return lines[len(lines)-1]
}

func (c *Cloud) lock(r *request, s *server) (reply, error) {
	args, err := arguments[struct {
		Reason string `json:"locked_reason"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	s.locked, s.lockedReason = true, args.Reason
	s.note(r, "lock")
	return accepted(nil), nil
}

func (c *Cloud) unlock(r *request, s *server) (reply, error) {
	s.locked, s.lockedReason = false, ""
	s.note(r, "unlock")
	return accepted(nil), nil
}

// forceDelete is a deletion with a different answer.
func (c *Cloud) forceDelete(r *request, _ *server) (reply, error) {
	if _, err := c.deleteServer(r); err != nil {
		return reply{}, err
	}
	return accepted(nil), nil
}

// addServerGroup and removeServerGroup change the security groups of all of a
// server's ports.
func (c *Cloud) addServerGroup(r *request, s *server) (reply, error) {
	return c.changeGroups(r, s, func(p *port, id string) {
		if !slices.Contains(p.groups, id) {
			p.groups = append(p.groups, id)
		}
	})
}

func (c *Cloud) removeServerGroup(r *request, s *server) (reply, error) {
	return c.changeGroups(r, s, func(p *port, id string) {
		p.groups = slices.DeleteFunc(p.groups, func(have string) bool { return have == id })
	})
}

func (c *Cloud) changeGroups(r *request, s *server, change func(*port, string)) (reply, error) {
	args, err := arguments[struct {
		Name string `json:"name"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	g, err := c.groupByName(args.Name)
	if err != nil {
		return reply{}, notFound("", "Security group %s not found for project %s.", args.Name, c.projectID)
	}
	for _, p := range s.ports {
		change(p, g.id)
	}
	s.updated = time.Now()
	return accepted(nil), nil
}
