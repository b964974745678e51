package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// gateLab is a cluster directory behind a real sshd. The keys have the forced commands that the playbooks write.
type gateLab struct {
	*scriptLab
	t       *testing.T
	address string
	keys    map[string]ssh.Signer // by the name of the user of the key
	journal *journal.Journal
}

// gateNodes are the nodes with a key.
var gateNodes = numbered("node", 1, 8).Names()

func newGateLab(t *testing.T) *gateLab {
	needs.Lab(t)
	g := &gateLab{scriptLab: &scriptLab{test: t, work: t.TempDir()}, t: t, keys: map[string]ssh.Signer{}}
	t.Cleanup(func() { g.check(g.close()) })
	_, err := g.makeCluster()
	g.check(err)
	g.journal, err = journal.Open(t.Context(), g.file("state"))
	g.check(err)
	t.Cleanup(func() { g.check(g.journal.Close()) })
	release, ok, err := g.journal.Acquire(t.Context()) // so that no call starts a worker
	if g.check(err); !ok {
		t.Fatal("somebody has the lease")
	}
	t.Cleanup(func() { g.check(release()) })
	g.startSSHD()
	return g
}

func (g *gateLab) check(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateLab) file(elem ...string) string {
	return filepath.Join(append([]string{g.work}, elem...)...)
}

// newKey makes a key, and returns its path and its line for authorized_keys without options.
func (g *gateLab) newKey() (ed25519.PrivateKey, string) {
	_, private, err := ed25519.GenerateKey(nil)
	g.check(err)
	public, err := ssh.NewPublicKey(private.Public())
	g.check(err)
	return private, string(ssh.MarshalAuthorizedKey(public))
}

func (g *gateLab) startSSHD() {
	self, err := exec.LookPath("reconfigure")
	g.check(err)
	var authorized strings.Builder
	authorize := func(name, from, role string) {
		private, line := g.newKey()
		signer, err := ssh.NewSignerFromKey(private)
		g.check(err)
		g.keys[name] = signer
		fmt.Fprintf(&authorized, "restrict,from=%q,command=\"'%s' --dir '%s' gate %s\" %s", from, self, g.work, role, line)
	}
	authorize("slurm", "127.0.0.1", "--role controller")
	authorize("elsewhere", "127.0.0.9", "--role controller")
	for _, node := range gateNodes {
		authorize(node, "127.0.0.1", "--role node --node "+node)
	}
	g.check(os.WriteFile(g.file("authorized_keys"), []byte(authorized.String()), 0o600))
	host, _ := g.newKey()
	block, err := ssh.MarshalPrivateKey(host, "")
	g.check(err)
	g.check(os.WriteFile(g.file("host_key"), pem.EncodeToMemory(block), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0") // a free port
	g.check(err)
	g.address = listener.Addr().String()
	g.check(listener.Close())
	// The login shell of the forced command reads the start files of HOME.
	g.check(os.WriteFile(g.file("sshd_config"), fmt.Appendf(nil, `ListenAddress %s
HostKey %s
AuthorizedKeysFile %s
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
UseDNS no
PidFile none
LogLevel ERROR
MaxStartups 400
MaxSessions 20
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
SetEnv %s=%s HOME=%[5]s
`, g.address, g.file("host_key"), g.file("authorized_keys"), scriptMark, g.work), 0o600))
	g.check(os.MkdirAll("/run/sshd", 0o755)) // sshd(8) needs it; Debian's service makes it
	sshd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", g.file("sshd_config"))
	log, err := os.Create(g.file("sshd.log"))
	g.check(err)
	sshd.Stderr = log
	g.check(sshd.Start())
	g.t.Cleanup(func() {
		_ = sshd.Process.Kill() // it may have ended
		_ = sshd.Wait()
		_ = log.Close()
	})
	g.check(eventually("sshd answers", func() (bool, error) {
		conn, err := net.Dial("tcp", g.address)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	}))
}

// dial logs in with a key.
func (g *gateLab) dial(key string) (*ssh.Client, error) {
	current, err := user.Current()
	g.check(err)
	return ssh.Dial("tcp", g.address, &ssh.ClientConfig{
		User: current.Username, Auth: []ssh.AuthMethod{ssh.PublicKeys(g.keys[key])},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: time.Minute,
	})
}

func (g *gateLab) login(key string) *ssh.Client {
	g.t.Helper()
	client, err := g.dial(key)
	g.check(err)
	g.t.Cleanup(func() { _ = client.Close() })
	return client
}

// answer is the output of a call, as the caller sees it.
type answer struct {
	code           int
	stdout, stderr string
}

func (g *gateLab) ask(client *ssh.Client, do func(*ssh.Session) error, stdin string) answer {
	session, err := client.NewSession()
	if err != nil {
		return answer{-1, "", err.Error()}
	}
	defer session.Close()
	var stdout, stderr bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = strings.NewReader(stdin), &stdout, &stderr
	var status *ssh.ExitError
	switch err := do(session); {
	case errors.As(err, &status):
		return answer{status.ExitStatus(), stdout.String(), stderr.String()}
	case err != nil:
		return answer{-1, "", err.Error()}
	}
	return answer{0, stdout.String(), stderr.String()}
}

func (g *gateLab) call(client *ssh.Client, command string) answer {
	return g.ask(client, func(s *ssh.Session) error { return s.Run(command) }, "")
}

// refused is the caller's message for a rejected call.
var refused = answer{2, "", "reconfigure: refused\n"}

// payloads are inserted into calls that are otherwise well-formed.
var payloads = []string{
	";id", "; id", "&&id", "||id", "|id", "&", "`id`", "$(id)", "${IFS}id", "$HOME", ">x", "<x", "\nid", "\n", "\rid",
	"\tid",
	" id", " ", "'", "\"", `\`, `\n`, "*", "?", "{a,b}", "~", "!", "#", "%s%n", "%00", "\x01", "\x1b[2J", "\x7f", "\x80",
	"\xc0\xaf", "é", "\u202e", "\u00a0", "\u2028", " --reason x", " --dir /tmp", " --no-wait", " --worker self",
	" --image evil",
	" --reimage", " --json", " --jobs", " --help", " --", " -h", "/../x", "/etc/passwd", "[", "]", "[1-", "[2-1]",
	"[1-999999999]",
	"[1-65537]", "[[1]]", ",,x", "=1", ":22", "@host", "(", ")", "^1", "+", " node04", strings.Repeat("x", 5000) + "!",
}

// hostileForController returns calls that are not in the grammar.
func hostileForController() []string {
	corpus := []string{
		"sh", "bash -i", "/bin/sh", "sh -c id", "id", "exec sh", "scp -t /tmp", "scp -f /etc/passwd", "sftp", "internal-sftp",
		"/usr/lib/openssh/sftp-server", "rsync --server --sender . /", "git-upload-pack '/x'", "reconfigure status",
		"reconfigure --dir / destroy --yes", "--help", "-h", "help", "version", "deploy", "destroy", "destroy --yes",
		"enlarge standard --to 20", "shrink standard --to 0", "resize", "plan deploy", "cancel 1", "pause --reason x",
		"continue", "jobs", "jobs 1", "report",
		"reconcile --fix", "inventory --list", "worker", "worker --stay", "evidence node01", "wait 1", "gate", "check",
		"gate --role controller", "gate --role node --node node01", "resume", "suspend", "update", "resume-fail",
		"resume_fail node03",
		"RESUME node03", "Resume node03", "resumé node03", "resume node03 node04", "resume --resume-file /etc/passwd node03",
		"resume --resume-file - node03", "resume --jobs=x node03", "resume -jobs node03", "resume --jobs --jobs node03",
		"suspend --jobs node03", "suspend --reason x node03", "update --reimage node03", "update --image evil node03",
		"update --from-slurm node03", "update --drain-timeout 1s node03", "status --output yaml", "status -o json",
		"status --failing",
		"status node01 node02", "status --json --json", "SSH_ORIGINAL_COMMAND=x", "env", "eval id", ". x", "$0", "''", "\"\"",
		"'" + "/opt/eiffel/bin/reconfigure' --dir '/opt/eiffel' resume --no-wait 'node03'",
		"resume " + strings.Repeat("a,", 49_000) + "a!",
		"resume " + strings.Repeat("node03,", 14_500) + "node03", strings.Repeat("resume ", 10_000),
		strings.Repeat("[", 50_000),
		"resume node03" + strings.Repeat("[1-9]", 30), "resume " + strings.Repeat("n", 300), "resume 10.0.0.1!",
		"resume -", "resume .", "resume --",
	}
	for _, form := range []string{
		"resume node03%", "resume --jobs node03%", "suspend node03%", "resume-fail node03%", "update node03%",
		"%resume node03", "resume% node03", "resume %", "%",
	} {
		for _, payload := range payloads {
			command := strings.ReplaceAll(form, "%", payload)
			if command != "resume --jobs node03" && command != "resume node03 --jobs" { // these are valid calls
				corpus = append(corpus, command)
			}
		}
	}
	return corpus
}

// hostileForNode returns calls that a node's key may not make.
func hostileForNode(node string) []string {
	corpus := []string{
		"sh", "status", "status --json", "status " + node, "resume " + node, "resume --jobs " + node, "suspend " + node,
		"resume-fail " + node, "update", "update eiffel-control", "update node[01-08]", "update node[01-20]",
		"update node01,node02",
		"update --reimage " + node, "update --from-slurm " + node, "update " + strings.ToUpper(node), "update " + node + "0",
		"update node09", "update node1", "update localhost", "destroy --yes", "gate --role controller", "scp -t /tmp",
		"gate --role node --node node09",
		"'/opt/eiffel/bin/reconfigure' --dir /opt/eiffel update --no-wait --from-slurm " + node,
	}
	for _, payload := range payloads {
		corpus = append(corpus, "update "+node+payload)
	}
	return corpus
}

// refuseAll makes calls over a few connections at once, and checks that each is rejected.
func (g *gateLab) refuseAll(key string, commands []string, before func()) {
	g.t.Helper()
	const connections = 4
	next := make(chan string)
	var group sync.WaitGroup
	for range connections {
		client := g.login(key)
		group.Go(func() {
			for command := range next {
				before()
				if got := g.call(client, command); got != refused {
					g.t.Errorf("%s: %.200q gets %+v", key, command, got)
				}
			}
		})
	}
	for _, command := range commands {
		next <- command
	}
	close(next)
	group.Wait()
}

// forget resets the record of a key's calls.
func (g *gateLab) forget(key string) {
	err := g.journal.UpdateKeyUse(g.t.Context(), key, func(known reconfigure.KeyUse, _ int) reconfigure.KeyUse {
		return reconfigure.KeyUse{Refused: known.Refused}
	})
	if err != nil {
		g.t.Error(err)
	}
}

// TestHostileCallers makes calls through a real sshd that the gate rejects, and some that it accepts.
func TestHostileCallers(t *testing.T) {
	g := newGateLab(t)
	all := hostileForController()
	g.refuseAll("slurm", all, func() {})
	count := len(all)
	for _, node := range gateNodes[:2] {
		commands := hostileForNode(node)
		g.refuseAll(node, commands, func() { g.forget("node " + node) })
		count += len(commands)
	}
	t.Logf("%d hostile calls", count)
	if waiting := g.pending(); len(waiting) > 0 {
		t.Errorf("requests were made: %+v", waiting)
	}
	for _, use := range g.uses() {
		if len(use.Refused) == 0 || use.Refused[0].Peer != "127.0.0.1" {
			t.Errorf("the record of calls of %s: %+v", use.Key, use.Refused)
		}
	}

	g.noWayAround()
	g.admitted()
	out, err := exec.CommandContext(t.Context(), "reconfigure", "--dir", g.work, "status").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nRefused calls with the key of slurm: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

func (g *gateLab) pending() []reconfigure.Request {
	g.t.Helper()
	waiting, err := g.journal.Pending(g.t.Context())
	g.check(err)
	return waiting
}

func (g *gateLab) uses() []reconfigure.KeyUse {
	g.t.Helper()
	uses, err := g.journal.KeyUses(g.t.Context())
	g.check(err)
	if len(uses) == 0 {
		g.t.Error("the keys are unknown")
	}
	return uses
}

// request makes a request of the SSH protocol for a session (RFC 4254, section 6.5).
func (g *gateLab) request(client *ssh.Client, name string, payload []byte) answer {
	g.t.Helper()
	channel, requests, err := client.OpenChannel("session", nil)
	g.check(err)
	if ok, err := channel.SendRequest(name, true, payload); err != nil || !ok {
		return answer{-1, "", fmt.Sprint(err)}
	}
	stdout, err := io.ReadAll(channel)
	g.check(err)
	stderr, err := io.ReadAll(channel.Stderr())
	g.check(err)
	got := answer{-1, string(stdout), string(stderr)}
	for r := range requests {
		if r.Type == "exit-status" {
			got.code = int(r.Payload[3]) // a number of four bytes
		}
	}
	return got
}

// noWayAround tries SSH's features other than commands.
func (g *gateLab) noWayAround() {
	g.t.Helper()
	client := g.login("slurm")
	for _, request := range []struct {
		name    string
		payload []byte
		stderr  string
	}{
		{"shell", nil, refused.stderr},
		{"subsystem", ssh.Marshal(struct{ Name string }{"sftp"}), ""}, // sshd ignores the standard error of subsystems
	} {
		if got, want := g.request(client, request.name, request.payload), (answer{2, "", request.stderr}); got != want {
			g.t.Errorf("a %s gets %+v", request.name, got)
		}
	}
	session, err := client.NewSession()
	g.check(err)
	defer session.Close()
	if session.RequestPty("xterm", 40, 80, nil) == nil {
		g.t.Error("there is a terminal")
	}
	if session.Setenv("LD_PRELOAD", "/tmp/evil.so") == nil || session.Setenv("RECONFIGURE_DIR", "/tmp") == nil {
		g.t.Error("variables are accepted")
	}
	if conn, err := client.Dial("tcp", g.address); err == nil {
		_ = conn.Close()
		g.t.Error("ports are forwarded")
	}
	if listener, err := client.Listen("tcp", "127.0.0.1:0"); err == nil {
		_ = listener.Close()
		g.t.Error("ports are forwarded back")
	}
	if client, err := g.dial("elsewhere"); err == nil {
		_ = client.Close()
		g.t.Error("a key is accepted from another address")
	}
	// sshd ends the connection.
	if got := g.call(g.login("slurm"), "resume node03\x00;id"); got.code != -1 {
		g.t.Errorf("a command with NUL gets %+v", got)
	}
	if waiting := g.pending(); len(waiting) > 0 {
		g.t.Errorf("requests were made: %+v", waiting)
	}
}

// admitted makes the calls of the scripts.
func (g *gateLab) admitted() {
	g.t.Helper()
	const jobs = `{"jobs":[{"job_id":4,"nodes":"node06"}],"all_nodes":"node06"}`
	slurm := g.login("slurm")
	for i, tc := range []struct{ key, command, stdin, stderr string }{
		{"slurm", "resume node[03-04],node99", "", ""},
		{"slurm", "resume --jobs node06", jobs, ""},
		{"slurm", "resume --jobs node07", jobs[:30], "the nodes are resumed without the jobs that it does not name"},
		{"slurm", "suspend node05", "", ""},
		{"slurm", "resume-fail node08", "", ""},
		{"slurm", "update node01", "", ""},
		{"node02", "update node02", "", ""},
	} {
		client := slurm
		if tc.key != "slurm" {
			client = g.login(tc.key)
			g.forget("node " + tc.key)
		}
		want := fmt.Sprintf("request %d\n", i+1)
		if tc.key != "slurm" {
			want = ""
		}
		got := g.ask(client, func(s *ssh.Session) error { return s.Run(tc.command) }, tc.stdin)
		warns := tc.stderr != "" && strings.Contains(got.stderr, tc.stderr)
		if got.code != 0 || got.stdout != want || warns != (got.stderr != "") {
			g.t.Errorf("%q gets %+v", tc.command, got)
		}
	}
	const from = "slurm from 127.0.0.1"
	day := reconfigure.Options{FromSlurm: true, DrainTimeout: 24 * time.Hour}
	want := []reconfigure.Request{
		{Mode: reconfigure.Resume, Nodes: nodeset.Of("node03", "node04", "node99"), Caller: from},
		{
			Mode: reconfigure.Resume, Nodes: nodeset.Of("node06"), Caller: from,
			Jobs: []reconfigure.Job{{ID: 4, Nodes: nodeset.Of("node06")}},
		},
		{Mode: reconfigure.Resume, Nodes: nodeset.Of("node07"), Caller: from},
		{Mode: reconfigure.Suspend, Nodes: nodeset.Of("node05"), Caller: from},
		{Mode: reconfigure.Suspend, Nodes: nodeset.Of("node08"), Caller: from, Reason: "not registered within ResumeTimeout"},
		{Mode: reconfigure.Update, Nodes: nodeset.Of("node01"), Caller: from, Options: day},
		{Mode: reconfigure.Update, Nodes: nodeset.Of("node02"), Caller: "node node02 from 127.0.0.1", Options: day},
	}
	got := g.pending()
	for i := range got {
		got[i].ID, got[i].Submitted = 0, time.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		g.t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got := g.call(slurm, "status --json node03"); got.code != 0 || !strings.Contains(got.stdout, `"node":"node03"`) {
		g.t.Errorf("status gets %+v", got)
	}
}

// TestANodeThatCallsInALoopCostsTheOthersNothing makes one key call far more often than its limit.
func TestANodeThatCallsInALoopCostsTheOthersNothing(t *testing.T) {
	g := newGateLab(t)
	rooted, codes := g.login("node01"), map[int]int{}
	for range 40 {
		got := g.call(rooted, "update node01")
		if got.code != 0 && got != (answer{1, "", "reconfigure: not accepted\n"}) {
			t.Fatalf("%+v", got)
		}
		codes[got.code]++
	}
	if codes[0] != 2 || len(g.pending()) != 2 {
		t.Errorf("calls by exit code: %v; %d requests are pending, want 2", codes, len(g.pending()))
	}
	if got := g.call(rooted, "sh"); got != refused {
		t.Errorf("a hostile call above the limit gets %+v", got)
	}
	refusals := g.uses()[0].Refused
	if n := len(refusals); n != 2 || refusals[n-1].Why != "too many calls" {
		t.Errorf("%+v", refusals)
	}
	for key, command := range map[string]string{"node02": "update node02", "slurm": "resume node03"} {
		if got := g.call(g.login(key), command); got.code != 0 {
			t.Errorf("%s gets %+v", key, got)
		}
	}
}

// TestTwoHundredCallsThroughTheGate makes the calls at once, each over a separate connection. hand_over.sh allows each
// call a minute, on a control host without other load.
func TestTwoHundredCallsThroughTheGate(t *testing.T) {
	g := newGateLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	begun, took := time.Now(), make([]time.Duration, callers)
	var group sync.WaitGroup
	for i := range took {
		group.Go(func() {
			client, err := g.dial("slurm")
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			stop := context.AfterFunc(ctx, func() { _ = client.Close() })
			defer stop()
			if got := g.call(client, "resume node"+fmt.Sprintf("%02d", 1+i%20)); got.code != 0 {
				t.Errorf("call %d gets %+v", i, got)
			}
			took[i] = time.Since(begun)
		})
	}
	group.Wait()
	slices.Sort(took)
	t.Logf("half of the calls took at most %s, all of them %s", took[callers/2], took[callers-1])
	if n := len(g.pending()); n != callers {
		t.Errorf("%d requests are pending, want %d", n, callers)
	}
}
