// Package lsapitest is an LSAPI application in Go, for tests and harnesses. It reads
// requests by the offsets that they hold, as lsphp does, and not as package lsapi
// writes them; it shares no code with that package.
package lsapitest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Packet types that an application sends.
const (
	Head     = 3
	Body     = 4
	End      = 5
	Stderr   = 6
	Received = 7
)

// maxRequest is the longest head of a request, in bytes, as lsphp has it.
const maxRequest = 65535

// Request is a request as the application reads it.
type Request struct {
	Script, Name, Query, Method string // what the head points at

	Special []string          // special variables, NAME=value with what the protocol has in each, in order
	Env     map[string]string // variables
	Fields  string            // the block of fields, lines without their end and with \n between them
	Length  int               // of the body, as declared
	Body    []byte            // all of it
}

// Serve answers the connections of ln with what handle makes of each request, which are
// packets; nil closes the connection. It returns when ln is closed and all
// connections are.
func Serve(ln net.Listener, handle func(q *Request) []byte) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		running.Go(func() {
			defer c.Close()
			in := bufio.NewReader(c)
			for {
				q, err := Read(in)
				if err != nil {
					return
				}
				answer := handle(q)
				if answer == nil {
					return
				}
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		})
	}
}

// Read reads one request with its body.
func Read(in *bufio.Reader) (*Request, error) {
	head, err := in.Peek(8)
	if err != nil {
		return nil, err
	}
	size := int(binary.LittleEndian.Uint32(head[4:]))
	if string(head[:4]) != "LS\x01\x00" || size < 60 || size > maxRequest {
		return nil, fmt.Errorf("request begins % x", head)
	}
	packet := make([]byte, size)
	if _, err := io.ReadFull(in, packet); err != nil {
		return nil, err
	}
	q, err := decode(packet)
	if err != nil {
		return nil, err
	}
	q.Body = make([]byte, q.Length)
	_, err = io.ReadFull(in, q.Body)
	return q, err
}

func decode(packet []byte) (q *Request, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("request with offsets that lead out of it: %v", r)
		}
	}()
	number := func(at int) int { return int(int32(binary.LittleEndian.Uint32(packet[at:]))) }
	text := func(offset int) string {
		value, _, _ := bytes.Cut(packet[number(offset):], []byte{0})
		return string(value)
	}
	q = &Request{Script: text(16), Name: text(20), Query: text(24), Method: text(28), Length: number(12), Env: map[string]string{}}
	block := number(8)
	if q.Length < 0 || block < 0 {
		return nil, errors.New("request with a negative length")
	}
	at := 44
	for range number(40) {
		var name, value string
		name, value, at = variable(packet, at)
		q.Special = append(q.Special, name+"="+value)
	}
	for at += 4; binary.BigEndian.Uint16(packet[at:]) != 0; {
		var name, value string
		name, value, at = variable(packet, at)
		q.Env[name] = value
	}
	if len(q.Env) != number(36) {
		return nil, fmt.Errorf("%d variables, and %d told", len(q.Env), number(36))
	}
	fields := bytes.TrimRight(packet[len(packet)-block:], "\x00")
	q.Fields = string(bytes.TrimSuffix(bytes.ReplaceAll(fields, []byte("\r\n"), []byte("\n")), []byte("\n")))
	return q, nil
}

func variable(packet []byte, at int) (name, value string, next int) {
	n, v := int(binary.BigEndian.Uint16(packet[at:])), int(binary.BigEndian.Uint16(packet[at+2:]))
	at += 4
	return string(packet[at : at+n-1]), string(packet[at+n : at+n+v-1]), at + n + v
}

// Packet encodes one packet.
func Packet(typ byte, content string) []byte {
	p := binary.LittleEndian.AppendUint32([]byte{'L', 'S', typ, 0}, uint32(8+len(content)))
	return append(p, content...)
}

// Reply encodes an answer: the receipt, the head with fields, "Name: value" each, the
// body in packets of at most 16 KiB, the end.
func Reply(status int, body string, fields ...string) []byte {
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(fields)))
	head = binary.LittleEndian.AppendUint32(head, uint32(status))
	for _, f := range fields {
		head = binary.LittleEndian.AppendUint16(head, uint16(len(f)+1))
	}
	for _, f := range fields {
		head = append(head, f+"\x00"...)
	}
	out := append(Packet(Received, ""), Packet(Head, string(head))...)
	for body != "" {
		n := min(len(body), 16<<10)
		out = append(out, Packet(Body, body[:n])...)
		body = body[n:]
	}
	return append(out, Packet(End, "")...)
}
