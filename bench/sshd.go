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

// sshd answers for one node of a site while the node's server is ACTIVE. It has only a host key.
type sshd struct {
	config *ssh.ServerConfig
	ended  chan struct{}
	wait   sync.WaitGroup
}

// newSSHD watches for the server of a name.
func newSSHD(cloud *labcloud.Cloud, name, address string) (*sshd, error) {
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
	d.wait.Go(func() { d.watch(cloud, name, address) })
	return d, nil
}

// watch listens as long as the server is ACTIVE.
func (d *sshd) watch(cloud *labcloud.Cloud, name, address string) {
	var listener net.Listener
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		there := false
		for _, s := range cloud.Servers() {
			there = there || s.Name == name && s.Status == "ACTIVE"
		}
		switch {
		case there && listener == nil:
			listener, _ = net.Listen("tcp", net.JoinHostPort(address, "22")) // tried again at the next tick
			if listener != nil {
				d.wait.Go(func() { d.serve(listener) })
			}
		case !there && listener != nil:
			_ = listener.Close()
			listener = nil
		}
		select {
		case <-tick.C:
		case <-d.ended:
			tick.Stop()
			if listener != nil {
				_ = listener.Close()
			}
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
