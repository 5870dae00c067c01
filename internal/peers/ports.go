// Package peers is what stands around httpjet when programs try it (bench, interop,
// soak): addresses for servers to listen on, and upstreams that die and come back. The
// server itself has no part in it.
package peers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
)

// FreePort returns a loopback address, as "127.0.0.1:20000", that is free for TCP and UDP
// and is none of given. It lies below the ports that the kernel gives to outgoing
// connections: none of those takes it before the program that it is meant for, and a
// listener that was closed finds its port free when it comes back.
func FreePort(given ...string) (string, error) {
	for range 100 {
		at := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if slices.Contains(given, at) {
			continue
		}
		l, err := net.Listen("tcp4", at)
		if err != nil {
			continue
		}
		u, err := net.ListenPacket("udp4", at)
		l.Close()
		if err == nil {
			return at, u.Close()
		}
	}
	return "", errors.New("no port from 20000 to 32000 is free for TCP and UDP")
}
