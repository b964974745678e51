package reconfigure

import "time"

// Pause is an administrator's word that the worker is to begin nothing: requests are accepted and wait.
type Pause struct {
	Since  time.Time `json:"since"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}
