package libvirt

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket"
)

// pipe is a connection to a server of the test.
type pipe struct{ net.Conn }

func (p pipe) Dial() (net.Conn, error) { return p.Conn, nil }

// TestAStreamThatEndsTwiceHoldsUpNothing downloads a volume from a server that ends each stream with several packets,
// as a busy libvirtd does.
func TestAStreamThatEndsTwiceHoldsUpNothing(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	go serve(there)
	done := make(chan error, 1)
	go func() {
		l := rpc.NewWithDialer(streamDialer{pipe{here}})
		if err := l.ConnectToURI("qemu:///system"); err != nil {
			done <- err
			return
		}
		for range 2000 {
			var text bytes.Buffer
			err := l.StorageVolDownload(rpc.StorageVol{}, &text, 0, 0, 0)
			if err != nil || text.String() != "a line\nanother\n" {
				t.Errorf("the volume is %q: %v", &text, err)
			}
			if _, err := l.ConnectGetLibVersion(); err != nil {
				t.Error(err)
			}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a call waits for ever")
	}
}

// serve answers each call. A download has two packets of data, and ends three times.
func serve(conn net.Conn) {
	const download = 209 // REMOTE_PROC_STORAGE_VOL_DOWNLOAD
	for {
		call, err := readPacket(conn)
		if err != nil {
			return
		}
		answer := func(kind, status uint32, data []byte) []byte {
			packet := append(slices.Clone(call[:headerSize]), data...)
			binary.BigEndian.PutUint32(packet, uint32(len(packet)))
			binary.BigEndian.PutUint32(packet[16:], kind)
			binary.BigEndian.PutUint32(packet[24:], status)
			return packet
		}
		packets := answer(socket.Reply, socket.StatusOK, make([]byte, 64))
		if binary.BigEndian.Uint32(call[12:]) == download {
			end := answer(socket.Stream, socket.StatusContinue, nil)
			packets = slices.Concat(packets, answer(socket.Stream, socket.StatusContinue, []byte("a line\n")),
				answer(socket.Stream, socket.StatusContinue, []byte("another\n")), end, end,
				answer(socket.Stream, socket.StatusOK, nil))
		}
		if _, err := conn.Write(packets); err != nil {
			return
		}
	}
}

func TestAPacketOfAnImpossibleLengthIsAnError(t *testing.T) {
	for _, length := range []uint32{0, headerSize - 1, longest + 1} {
		packet := make([]byte, headerSize)
		binary.BigEndian.PutUint32(packet, length)
		if _, err := readPacket(io.MultiReader(bytes.NewReader(packet), bytes.NewReader(make([]byte, 64)))); err == nil {
			t.Errorf("a packet of %d bytes was read", length)
		}
	}
}
