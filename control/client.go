package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"

	"httpjet/unixsocket"
)

// maxAnswer bounds an answer of the server.
const maxAnswer = 64 << 20

// Client asks the server behind a socket. Each request has a connection of its own.
type Client struct {
	path string
	http http.Client
}

// NewClient returns a client of the socket at path. It connects when it is asked.
func NewClient(path string) *Client {
	c := &Client{path: path}
	c.http = http.Client{Timeout: writeTimeout + 5*time.Second,
		Transport: &http.Transport{DialContext: c.dial, DisableKeepAlives: true}}
	return c
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return unixsocket.Dial(ctx, c.path)
}

// Get asks for a document.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// Post gives a command. An answer other than 200 is a *Refusal.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, path, bytes.NewReader(body), out)
}

func (c *Client) do(ctx context.Context, method, path string, body io.Reader, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://httpjet"+path, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode == http.StatusOK {
		if err := dec.Decode(out); err != nil {
			return fmt.Errorf("answer of %s: %w", c.path, err)
		}
		return nil
	}
	r := &Refusal{}
	dec.Decode(r) // there need not be one
	r.Status = resp.StatusCode
	return r
}

// unreachable says what a failed connection means to who gave the command.
func (c *Client) unreachable(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no server runs at %s (--root and --control-socket name another)", c.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: only root and the server's own user may ask", c.path)
	}
	return fmt.Errorf("%s: %w", c.path, errors.Unwrap(err))
}
