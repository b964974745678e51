package libvirt

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"

	"github.com/digitalocean/go-libvirt/socket"
)

// streamDialer makes connections that end each stream once. libvirtd may send more than one empty packet at the end
// of a stream. The library expects only one, and with a second one all later calls of the connection would wait
// forever.
type streamDialer struct{ socket.Dialer }

func (d streamDialer) Dial() (net.Conn, error) {
	conn, err := d.Dialer.Dial()
	if err != nil {
		return nil, err
	}
	return &streamConn{Conn: conn, ended: map[uint32]bool{}}, nil
}

// streamConn reads whole packets, and drops those of streams that have ended. One goroutine reads at a time.
type streamConn struct {
	net.Conn
	packet []byte          // the unread part of the current packet
	ended  map[uint32]bool // by the serial number of the call: its stream has ended
}

// A packet begins with its length, then the program, version, procedure, type, serial number and status, each as four
// bytes (libvirt's documentation, "Remote support", "Protocol structure").
const (
	headerSize = 28
	longest    = 32 << 20 // the maximum length of a packet: VIR_NET_MESSAGE_MAX
	calls      = 1000     // the number of ended calls to remember: older ones get no more packets
)

func (c *streamConn) Read(p []byte) (int, error) {
	for len(c.packet) == 0 {
		packet, err := readPacket(c.Conn)
		if err != nil {
			return 0, err
		}
		if !c.late(packet) {
			c.packet = packet
		}
	}
	n := copy(p, c.packet)
	c.packet = c.packet[n:]
	return n, nil
}

func readPacket(r io.Reader) ([]byte, error) {
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(header)
	if length < headerSize || length > longest {
		return nil, fmt.Errorf("libvirtd sent a packet of %d bytes", length)
	}
	packet := append(header, make([]byte, length-headerSize)...)
	_, err := io.ReadFull(r, packet[headerSize:])
	return packet, err
}

// late reports whether a packet belongs to a stream that has ended, and records the end of a stream: a packet without
// data, or one whose status is not "continue".
func (c *streamConn) late(packet []byte) bool {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(packet[4*i:]) }
	if word(4) != socket.Stream {
		return false
	}
	serial := word(5)
	if c.ended[serial] {
		return true
	}
	if len(packet) == headerSize || word(6) != socket.StatusContinue {
		c.ended[serial] = true
		if len(c.ended) > calls {
			maps.DeleteFunc(c.ended, func(old uint32, _ bool) bool { return old+calls < serial })
		}
	}
	return false
}
