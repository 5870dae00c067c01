package handover

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain makes the test binary the process that inherits.
func TestMain(m *testing.M) {
	if role := os.Getenv("HANDOVER_ROLE"); role != "" {
		if err := heir(role); err != nil {
			fmt.Println("failed:", err)
			os.Exit(7)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// heir takes the sockets that its role names, "name network address" with commas
// between, greets one client of each, and tells what is left.
func heir(role string) error {
	s, err := Inherited()
	if err != nil {
		return err
	}
	defer s.Close()
	if os.Getenv("LISTEN_FDS") != "" || os.Getenv(variable) != "" {
		return fmt.Errorf("the environment still has it")
	}
	var taken []net.Listener
	for want := range strings.SplitSeq(role, ",") {
		f := strings.Split(want, " ")
		if len(f) != 3 {
			return fmt.Errorf("role %q", want)
		}
		if f[1] == "udp" {
			at, err := net.ResolveTCPAddr("tcp", f[2])
			if err != nil {
				return err
			}
			udp, err := s.UDP(f[0], at)
			if err != nil {
				return err
			}
			fmt.Println(f[2], "udp", udp != nil)
			if udp != nil {
				buf := make([]byte, 10)
				n, from, err := udp.ReadFrom(buf)
				if err != nil {
					return err
				}
				udp.WriteTo(buf[:n], from)
				udp.Close()
			}
			continue
		}
		ln, err := s.TCP(f[0], f[1], f[2])
		if err != nil {
			return err
		}
		fmt.Println(f[2], ln != nil)
		if ln != nil {
			taken = append(taken, ln)
		}
	}
	fmt.Println("rest", len(s.Rest()))
	if err := s.Ready(); err != nil {
		return err
	}
	for _, ln := range taken {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		io.WriteString(c, "hello")
		c.Close()
	}
	return nil
}

func listen(t *testing.T, network, address string) (*net.TCPListener, *os.File) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close(); f.Close() })
	return ln.(*net.TCPListener), f
}

func greeted(t *testing.T, address string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if b, err := io.ReadAll(c); string(b) != "hello" {
		t.Errorf("%s: %q, %v", address, b, err)
	}
}

// R-SYSD-1: sockets of the service manager go by address and kind to those who want
// them; others are closed; those that are meant for another process are left alone.
func TestSocketActivation(t *testing.T) {
	a, af := listen(t, "tcp4", "127.0.0.1:0")
	beside := func() (*net.UDPConn, error) {
		return net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: a.Addr().(*net.TCPAddr).Port})
	}
	udp, err := beside()
	for range 20 { // somebody may have the same port of UDP
		if err == nil {
			break
		}
		a, af = listen(t, "tcp4", "127.0.0.1:0")
		udp, err = beside()
	}
	if err != nil {
		t.Fatal("no UDP port beside a TCP port: ", err)
	}
	b, bf := listen(t, "tcp4", "127.0.0.1:0")
	wild, wf := listen(t, "tcp4", ":0")
	defer udp.Close()
	uf, err := udp.File()
	if err != nil {
		t.Fatal(err)
	}
	defer uf.Close()
	port := func(ln *net.TCPListener) string { _, p, _ := net.SplitHostPort(ln.Addr().String()); return p }
	run := func(pid, role string) string {
		cmd := exec.Command("sh", "-c", "LISTEN_PID="+pid+" exec \"$0\"", os.Args[0])
		cmd.Env = append(os.Environ(), "LISTEN_FDS=4", "HANDOVER_ROLE="+role)
		cmd.ExtraFiles = []*os.File{uf, af, bf, wf}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	done := make(chan string)
	echo, err := net.Dial("udp", udp.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	echo.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := echo.Write([]byte("packet")); err != nil {
		t.Fatal(err)
	}
	go func() {
		done <- run("$$", "u udp "+b.Addr().String()+",v udp "+a.Addr().String()+",x tcp "+a.Addr().String()+",y tcp *:"+port(b)+",z tcp4 :"+port(wild))
	}()
	buf := make([]byte, 10)
	if n, err := echo.Read(buf); string(buf[:n]) != "packet" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	greeted(t, a.Addr().String())
	greeted(t, wild.Addr().String())
	// *:PORT is no name that Go resolves, and b is bound to one address: it is left.
	want := fmt.Sprintf("%s udp false\n%s udp true\n%s true\n*:%s false\n:%s true\nrest 1\n", b.Addr(), a.Addr(), a.Addr(), port(b), port(wild))
	if out := <-done; out != want {
		t.Errorf("the heir said\n%swant\n%s", out, want)
	}
	if out := run("1", "x tcp "+a.Addr().String()); out != a.Addr().String()+" false\nrest 0\n" {
		t.Errorf("sockets of process 1: %s", out)
	}
}

// Descriptors that are no sockets, or not of listeners, and more than there are: none is
// taken, and the process starts.
func TestForeignDescriptors(t *testing.T) {
	a, af := listen(t, "tcp4", "127.0.0.1:0")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	cmd := exec.Command("sh", "-c", "LISTEN_PID=$$ exec \"$0\"", os.Args[0])
	cmd.Env = append(os.Environ(), "LISTEN_FDS=4", "HANDOVER_ROLE=x tcp 127.0.0.1:1,y udp "+a.Addr().String())
	cmd.ExtraFiles = []*os.File{null, read, write, af}
	text, err := cmd.CombinedOutput()
	if want := "127.0.0.1:1 false\n" + a.Addr().String() + " udp false\nrest 4\n"; err != nil || string(text) != want {
		t.Errorf("%v: the heir said\n%swant\n%s", err, text, want)
	}
}

func start(t *testing.T, role string, offers []Offer) *Successor {
	t.Helper()
	t.Setenv("HANDOVER_ROLE", role)
	s, err := Start([]string{os.Args[0]}, offers, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	return s
}

// A successor has the sockets by name, also at ports that the kernel chose.
func TestSuccessor(t *testing.T) {
	ln, f := listen(t, "tcp4", "127.0.0.1:0")
	s := start(t, "web tcp 127.0.0.1:0", []Offer{{"other", f}, {"web", f}})
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	ln.Close()
	greeted(t, ln.Addr().String())
	s.line.Close()
	s.cmd.Wait()
}

// One that fails says so, and its exit status is known.
func TestSuccessorFails(t *testing.T) {
	if s := start(t, "nonsense", nil); s.Err() == nil || !strings.Contains(s.Err().Error(), "exit status 7") {
		t.Errorf("%v", s.Err())
	}
	if _, err := Start([]string{t.TempDir() + "/none"}, nil, nil); err == nil {
		t.Error("no error for a program that is not there")
	}
}

// Who came before counts until it has ended, also if nobody asks for its status.
func TestAlive(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	s := &Set{alive: []int{pid, os.Getpid(), 1 << 30}}
	if got := s.Alive(); !slices.Equal(got, []int{pid, os.Getpid()}) {
		t.Errorf("alive %v", got)
	}
	in.Close()
	for deadline := time.Now().Add(20 * time.Second); len(s.Alive()) > 1 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if got := s.Alive(); !slices.Equal(got, []int{os.Getpid()}) {
		t.Errorf("alive %v with one that has ended", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := (&Set{}).Alive(); len(got) > 0 {
		t.Errorf("%v before a process that succeeds none", got)
	}
}
