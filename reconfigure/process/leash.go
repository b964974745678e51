package process

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// watch ends the process group $1 if its input ends before a line came. The group has $2 seconds from SIGINT to
// SIGKILL.
const watch = `read -r line && exit
kill -s INT -- "-$1"
n=0
while [ $n -lt "$2" ] && kill -s 0 -- "-$1"; do
	sleep 1
	n=$((n + 1))
done
kill -s KILL -- "-$1"`

// leash starts a process that ends a process group, as a cancelled context would, if this process is killed. Else an
// orphaned run of Ansible would go on to change the nodes at the same time as the next worker's run. Release ends the
// leash. Without a shell there is no leash.
func leash(group int, grace time.Duration) (release func()) {
	seconds := int((grace + time.Second - 1) / time.Second)
	cmd := exec.Command("/bin/sh", "-c", watch, "sh", strconv.Itoa(group), strconv.Itoa(seconds))
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := cmd.StdinPipe() // the kernel closes it with this process
	if err != nil || cmd.Start() != nil {
		return func() {}
	}
	return func() {
		_, _ = io.WriteString(input, "\n")
		_ = cmd.Wait()
	}
}
