package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// upload sends a file through the media manager and fetches it again.
func (w *wiki) upload() (string, error) {
	a, err := w.get("/doku.php/start?do=media&ns=&tab_files=upload", 200)
	if err != nil {
		return "", err
	}
	v, err := form(a.body, "dw__upload")
	if err != nil {
		return "", err
	}
	data := noise(600_000)
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	m.WriteField("sectok", v.Get("sectok"))
	m.WriteField("ns", "")
	m.WriteField("mediaid", "noise.zip")
	f, _ := m.CreateFormFile("qqfile", "noise.zip") // a bytes.Buffer takes everything
	f.Write(data)
	m.Close()
	a, err = want(200)(w.send("POST", "/lib/exe/ajax.php?call=mediaupload", &body, int64(body.Len()), "Content-Type: "+m.FormDataContentType()))
	if err != nil {
		return "", err
	}
	if err := holds(a, `"success":true`); err != nil {
		return "", err
	}
	if a, err = w.get("/lib/exe/fetch.php?media=noise.zip", 200); err != nil {
		return "", err
	}
	return "multipart upload fetched back unchanged", same(a.body, data)
}

func (w *wiki) chunkedSave() (string, error) {
	var text strings.Builder
	text.WriteString("====== Long ======\n")
	for i := range 6000 {
		fmt.Fprintf(&text, "Line %d of a page that is sent in chunks.\n", i)
	}
	page := strings.TrimSpace(text.String())
	err := w.save("long", page, func(path string, v url.Values) (*answer, error) {
		return want(302)(w.send("POST", path, unsized([]byte(v.Encode())), -1, "Content-Type: application/x-www-form-urlencoded"))
	})
	return fmt.Sprintf("a page of %d bytes, length not declared", len(page)), err
}

func (w *wiki) chunkedProbe() (string, error) {
	for _, n := range []int{0, 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 3 << 20} {
		data := noise(n)
		expect := []string{fmt.Sprintf("CONTENT_LENGTH=%d\n", n), fmt.Sprintf("READ=%d\n", n), fmt.Sprintf("SHA256=%x\n", sha256.Sum256(data))}
		for _, declared := range []bool{false, true} {
			body, length := unsized(data), int64(-1)
			if declared {
				body, length = io.Reader(bytes.NewReader(data)), int64(n)
			}
			a, err := want(200)(w.send("POST", "/probe.php", body, length, "Content-Type: application/octet-stream"))
			if err != nil {
				return "", fmt.Errorf("%d bytes, declared %t: %v", n, declared, err)
			}
			if n == 0 && !declared {
				expect = expect[1:] // an empty body may leave CONTENT_LENGTH unset
			}
			if err := holds(a, expect...); err != nil {
				return "", fmt.Errorf("%d bytes, declared %t: %v", n, declared, err)
			}
		}
	}
	return "0 B to 3 MiB around the 256 KiB border, chunked and declared, SHA-256 equal", nil
}

func (w *wiki) large() (string, error) {
	const n = 32 << 20
	a, err := w.get(fmt.Sprintf("/probe.php?bytes=%d", n), 200)
	if err != nil {
		return "", err
	}
	return "32 MiB from PHP", same(a.body, bytes.Repeat([]byte("0123456789abcdef"), n/16))
}

// crowd sends more requests at once than PHP has workers: they wait their turn.
func (w *wiki) crowd() (string, error) {
	const n = 40
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			body := fmt.Sprintf("body of %d", i)
			a, err := want(200)(w.send("POST", "/probe.php", strings.NewReader(body), int64(len(body))))
			if err == nil {
				err = holds(a, fmt.Sprintf("SHA256=%x\n", sha256.Sum256([]byte(body))))
			}
			errs[i] = err
		})
	}
	all.Wait()
	return "each got its own answer", errors.Join(errs...)
}

func (w *wiki) missing() (string, error) {
	if _, err := w.get("/nothing-here.php", 404); err != nil {
		return "", err
	}
	_, err := w.get("/nothing-here.php/x", 404)
	return "", err
}

// status is a status, a repeated field and a field with odd characters.
func (w *wiki) status() (string, error) {
	a, err := w.get("/probe.php?status=418", 418)
	if err != nil {
		return "", err
	}
	if got := a.Header.Values("Set-Cookie"); len(got) != 2 || a.Header.Get("X-Odd-Answer") != `a:b "c"` {
		return "", fmt.Errorf("cookies %q, X-Odd-Answer %q", got, a.Header.Get("X-Odd-Answer"))
	}
	return "418 with two cookies", holds(a, "status 418\n")
}

// stderr is what a script logs: for the operator, never for the visitor.
func (w *wiki) stderr(j *jet) (string, error) {
	a, err := w.get("/probe.php?log=odd+noise", 200)
	if err != nil {
		return "", err
	}
	if err := same(a.body, []byte("logged\n")); err != nil {
		return "", err
	}
	text := []byte{}
	err = j.ready(context.Background(), func() error { // lines are written together
		text, err = os.ReadFile(filepath.Join(j.root, "logs", "error.log"))
		if err == nil && !bytes.Contains(text, []byte("from the probe: odd noise")) {
			err = fmt.Errorf("the error log does not hold it; it ends with\n%s", tail(text))
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if bytes.Contains(text, []byte("noise\t")) {
		return "", errors.New("a control character reached the error log as it was")
	}
	return "escaped, and not in the answer", nil
}

// events come from PHP as they are flushed.
func (w *wiki) events() (string, error) { return delay(w.client, "/probe.php?events=50", 50) }

// abort leaves many downloads in the middle. Each held a worker; all four have
// to be there again at once, though their connections cannot be.
func (w *wiki) abort() (string, error) {
	for range 12 {
		resp, err := w.Get(w.base + "/probe.php?bytes=50000000")
		if err != nil {
			return "", err
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 100_000)); err != nil {
			return "", err
		}
		resp.Body.Close()
	}
	return "12 downloads left in the middle, then forty requests answered", second(w.crowd())
}

func second(_ string, err error) error { return err }

// slow holds more uploads open than there are workers. None of them is complete,
// so none may have a worker (R-FCGI-6).
func (w *wiki) slow() (string, error) {
	host := strings.TrimPrefix(w.base, "http://")
	for range 8 {
		c, err := net.Dial("tcp", host)
		if err != nil {
			return "", err
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "POST /probe.php HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\nhalf of it", host); err != nil {
			return "", err
		}
	}
	return "8 unfinished uploads, forty requests answered meanwhile", second(w.crowd())
}

// expect has the body wait for 100 Continue; curl is the client that insists.
func (w *wiki) expect() (string, error) {
	out, err := exec.CommandContext(w.r.ctx, "curl", "-sS", "-v", "--max-time", "20", "--expect100-timeout", "15", "-H", "Expect: 100-continue", "-d", "x=1", w.base+"/probe.php").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("curl: %v: %s", err, tail(out))
	}
	if !bytes.Contains(out, []byte("< HTTP/1.1 100")) || !bytes.Contains(out, []byte("READ=3\n")) {
		return "", fmt.Errorf("curl saw:\n%s", tail(out))
	}
	return "100, then the answer", nil
}

// withoutFPM stops PHP-FPM and asks for scripts in every way that has once made
// some server send their source.
func (w *wiki) withoutFPM() (string, error) {
	if err := w.fpm.stop(); err != nil {
		return "", err
	}
	paths := []string{"/doku.php", "/doku.php/some:page", "/", "/index.php", "/probe.php", "/probe.php/", "/probe.php?x", "/%70robe.php", "/lib/../probe.php", "/lib/exe/css.php"}
	var errs []error
	for _, p := range paths {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			a, err := want(503)(w.send(method, p, nil, 0))
			if err == nil {
				err = leaks(a)
			}
			errs = append(errs, err)
		}
	}
	// A range or a condition is answered by the file server, if anything is.
	_, err := w.get("/probe.php", 503, "Range: bytes=0-9")
	errs = append(errs, err)
	// A suffix in capitals is another file's name; it must not become the source.
	a, err := w.send("GET", "/probe.PHP", nil, 0)
	if err == nil {
		err = leaks(a)
	}
	errs = append(errs, err)
	return fmt.Sprintf("%d paths answer 503", len(paths)), errors.Join(errs...)
}

func (w *wiki) back(j *jet) (string, error) {
	if err := w.startFPM(); err != nil {
		return "", err
	}
	began := time.Now()
	err := j.ready(context.Background(), func() error { // retryTimeout leaves a broken application alone for 10 s
		a, err := w.get("/doku.php/some:page", 200)
		if err != nil {
			return err
		}
		return holds(a, "Saved through httpjet")
	})
	return fmt.Sprintf("served again without a reload, after %.0f s", time.Since(began).Seconds()), err
}
