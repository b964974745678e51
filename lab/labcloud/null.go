package labcloud

import "context"

// Null is a hypervisor without machines: every change succeeds at once. It is for tests of scale and of the cloud
// itself.
type Null struct{}

var _ Hypervisor = Null{}

// nullConsole is the console of every machine of Null.
const nullConsole = "this machine has nothing behind it\n"

// Boot does nothing.
func (Null) Boot(context.Context, Machine) error { return nil }

// Rebuild does nothing.
func (Null) Rebuild(context.Context, Machine) error { return nil }

// Reboot does nothing.
func (Null) Reboot(context.Context, string, bool) error { return nil }

// Stop does nothing.
func (Null) Stop(context.Context, string) error { return nil }

// Destroy does nothing.
func (Null) Destroy(context.Context, string) error { return nil }

// Console returns the same line for every machine.
func (Null) Console(string, int) (string, error) { return nullConsole, nil }

// Snapshot does nothing.
func (Null) Snapshot(context.Context, string, string) error { return nil }
