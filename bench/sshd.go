package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// sshd answers for nodes of a site while their servers are ACTIVE. It has only a host key.
type sshd struct {
	config *ssh.ServerConfig
	ended  chan struct{}
	wait   sync.WaitGroup
}

// newSSHD watches for the servers of these names, which have these addresses.
func newSSHD(cloud *labcloud.Cloud, addresses map[string]string) (*sshd, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	d := &sshd{ended: make(chan struct{}), config: &ssh.ServerConfig{
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, errors.New("nobody may log in")
		},
	}}
	d.config.AddHostKey(key)
	d.wait.Go(func() { d.watch(cloud, addresses) })
	return d, nil
}

// watch listens for each server while it is ACTIVE.
func (d *sshd) watch(cloud *labcloud.Cloud, addresses map[string]string) {
	listeners := map[string]net.Listener{}
	defer func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		active := map[string]bool{}
		for _, s := range cloud.Servers() {
			active[s.Name] = s.Status == "ACTIVE"
		}
		for name, address := range addresses {
			listener := listeners[name]
			switch {
			case active[name] && listener == nil:
				// After an error, the next tick tries again.
				if listener, err := net.Listen("tcp", net.JoinHostPort(address, "22")); err == nil {
					listeners[name] = listener
					d.wait.Go(func() { d.serve(listener) })
				}
			case !active[name] && listener != nil:
				_ = listener.Close()
				delete(listeners, name)
			}
		}
		select {
		case <-tick.C:
		case <-d.ended:
			tick.Stop()
			return
		}
	}
}

func (d *sshd) serve(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		d.wait.Go(func() {
			defer connection.Close()
			_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
			_, _, _, _ = ssh.NewServerConn(connection, d.config) // the caller needs only the host key
		})
	}
}

func (d *sshd) close() error {
	close(d.ended)
	d.wait.Wait()
	return nil
}
