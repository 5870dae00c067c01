package main

import (
	"net"
	"net/http"
	"net/http/fcgi"

	"httpjet/internal/peers"
)

func httpMortal(h http.Handler) (*peers.Mortal, error) {
	return newMortal("tcp", "", func(l net.Listener) { http.Serve(l, h) })
}

// fcgiMortal answers with the body of the request, at a Unix socket.
func fcgiMortal(path string) (*peers.Mortal, error) {
	return newMortal("unix", path, func(l net.Listener) { fcgi.Serve(l, http.HandlerFunc(echo)) })
}

// wsMortal sends messages back.
func wsMortal() (*peers.Mortal, error) { return httpMortal(http.HandlerFunc(peers.EchoMessages)) }

// newMortal starts a backend in this process that can be killed, with every connection
// that it has, and comes back at the same address, which is a free one if none is given.
func newMortal(network, address string, serve func(net.Listener)) (*peers.Mortal, error) {
	m := &peers.Mortal{Network: network, Address: address, Serve: serve}
	return m, m.Up()
}
