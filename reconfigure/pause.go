package reconfigure

import "time"

// Pause is an administrator's order that no operation begins. Requests are accepted, and wait.
type Pause struct {
	Since  time.Time `json:"since"`
	By     string    `json:"by,omitempty"` // the administrator
	Reason string    `json:"reason,omitempty"`
}
