package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// serveLSAPI answers as a small lsphp does. It reads requests by the offsets that
// they hold, and not as httpjet writes them.
func (b *backend) serveLSAPI() {
	for {
		c, err := b.ln.Accept()
		if err != nil {
			return
		}
		b.running.Go(func() {
			defer c.Close()
			in := bufio.NewReader(c)
			for b.answerLSAPI(c, in) == nil {
			}
		})
	}
}

func (b *backend) answerLSAPI(c net.Conn, in *bufio.Reader) error {
	packet := make([]byte, 8)
	if _, err := io.ReadFull(in, packet); err != nil {
		return err
	}
	number := func(at int) int { return int(binary.LittleEndian.Uint32(packet[at:])) }
	packet = append(packet, make([]byte, number(4)-8)...)
	if _, err := io.ReadFull(in, packet[8:]); err != nil {
		return err
	}
	text := func(offset int) string {
		value, _, _ := bytes.Cut(packet[number(offset):], []byte{0})
		return string(value)
	}
	body := make([]byte, number(12))
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	fields := packet[len(packet)-number(8):]
	answer := fmt.Sprintf("from %s\n%s %s?%s\nSCRIPT_FILENAME=%s\n%s\n%d bytes: %.40s\n", b.name, text(28), text(20), text(24), text(16),
		bytes.ReplaceAll(bytes.TrimRight(fields, "\x00"), []byte("\r\n"), []byte("\n")), len(body), body)
	b.record(answer)
	switch b.behaviour {
	case "garbage":
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		return err
	case "cut":
		c.Write(lsapiPacket(3, lsapiHead(200, "Content-Type: text/plain")))
		c.Write(lsapiPacket(4, []byte("half")))
		return io.ErrUnexpectedEOF
	}
	reply := lsapiPacket(7, nil)
	reply = append(reply, lsapiPacket(6, []byte("a warning\n"))...)
	reply = append(reply, lsapiPacket(3, lsapiHead(200, "Content-Type: text/plain", "X-App: "+b.name))...)
	reply = append(reply, lsapiPacket(4, []byte(answer))...)
	_, err := c.Write(append(reply, lsapiPacket(5, nil)...))
	return err
}

func lsapiPacket(typ byte, payload []byte) []byte {
	p := binary.LittleEndian.AppendUint32([]byte{'L', 'S', typ, 0}, uint32(8+len(payload)))
	return append(p, payload...)
}

func lsapiHead(status int, fields ...string) []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(len(fields)))
	p = binary.LittleEndian.AppendUint32(p, uint32(status))
	for _, f := range fields {
		p = binary.LittleEndian.AppendUint16(p, uint16(len(f)+1))
	}
	for _, f := range fields {
		p = append(p, f+"\x00"...)
	}
	return p
}
