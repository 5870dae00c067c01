package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A phpPool is PHP behind one of the two gateways to it: PHP-FPM behind FastCGI, or
// lsphp behind LSAPI.
type phpPool struct {
	r     *run
	lsphp string // the program; "": PHP-FPM
	dir   string // its socket, configuration and sessions
	sock  string
	*process
}

// siteWorkers is how many requests a pool works on at once.
const siteWorkers = 4

// siteINI is what scripts of the pools may rely on.
var siteINI = [][2]string{{"upload_max_filesize", "16M"}, {"post_max_size", "16M"}, {"memory_limit", "256M"}, {"log_errors", "1"}, {"display_errors", "0"}}

// newPool prepares a pool with a directory of its own.
func (r *run) newPool(name, lsphp string) (*phpPool, error) {
	p := &phpPool{r: r, lsphp: lsphp, dir: filepath.Join(r.dir, "php-"+name)}
	p.sock = filepath.Join(p.dir, "php.sock")
	sessions := filepath.Join(p.dir, "sessions")
	if err := os.MkdirAll(sessions, 0o755); err != nil {
		return nil, err
	}
	var fpm, php strings.Builder
	fmt.Fprintf(&fpm, "[global]\ndaemonize = no\nerror_log = %s/fpm.log\n[site]\nlisten = %s\nlisten.mode = 0666\npm = static\npm.max_children = %d\ncatch_workers_output = yes\n",
		p.dir, p.sock, siteWorkers)
	for _, v := range append(siteINI, [2]string{"session.save_path", sessions}) {
		fmt.Fprintf(&fpm, "php_value[%s] = %s\n", v[0], v[1])
		fmt.Fprintf(&php, "%s = %s\n", v[0], v[1])
	}
	if os.Geteuid() == 0 {
		fpm.WriteString("user = www-data\ngroup = www-data\n")
	}
	if err := writeFiles(p.dir, map[string]string{"fpm.conf": fpm.String(), "php.ini": php.String()}); err != nil {
		return nil, err
	}
	return p, r.give(p.dir)
}

// give makes a directory the property of whom PHP runs as.
func (r *run) give(dirs ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return r.command("chown", append([]string{"-R", "www-data:www-data"}, dirs...)...)
}

func (p *phpPool) up() (err error) {
	if p.lsphp != "" {
		p.process, err = p.r.startLSPHPWith(p.lsphp, p.sock, siteWorkers, filepath.Join(p.dir, "php.ini"))
		return err
	}
	if p.process, err = p.r.start("php-fpm8.2", "-F", "-y", filepath.Join(p.dir, "fpm.conf")); err != nil {
		return err
	}
	return p.ready(p.r.ctx, dial("unix", p.sock))
}

// kind is the type of the processor.
func (p *phpPool) kind() string {
	if p.lsphp != "" {
		return "lsapi"
	}
	return "fcgi"
}

// vhost is a virtual host whose scripts the pool runs; more is added to it.
func (p *phpPool) vhost(docRoot, more string) string {
	return strings.NewReplacer("{{dir}}", docRoot, "{{sock}}", p.sock, "{{kind}}", p.kind(), "{{workers}}", fmt.Sprint(siteWorkers), "{{more}}", more).Replace(`
  <docRoot>{{dir}}</docRoot>
  <index>
    <useServer>0</useServer>
    <indexFiles>index.php, index.html</indexFiles>
  </index>
  <extProcessorList>
    <extProcessor>
      <type>{{kind}}</type>
      <name>php</name>
      <address>uds:/{{sock}}</address>
      <maxConns>{{workers}}</maxConns>
      <initTimeout>60</initTimeout>
      <retryTimeout>0</retryTimeout>
      <persistConn>1</persistConn>
      <pcKeepAliveTimeout>10</pcKeepAliveTimeout>
      <autoStart>0</autoStart>
    </extProcessor>
  </extProcessorList>
  <scriptHandlerList>
    <scriptHandler><suffix>php</suffix><type>{{kind}}</type><handler>php</handler></scriptHandler>
  </scriptHandlerList>{{more}}`)
}

// onEachPHP runs the checks of an application behind PHP-FPM and, in a full run,
// behind lsphp too. dir is the document root.
func (r *run) onEachPHP(name, dir string, checks func(gateway string, j *jet) error) error {
	programs := map[string]string{"fpm": ""}
	order := []string{"fpm"}
	if r.mode == "full" {
		lsphp, err := r.lsphpDir()
		if err != nil {
			return err
		}
		programs["lsphp"] = filepath.Join(lsphp, "lsphp")
		order = append(order, "lsphp")
	}
	for _, gateway := range order {
		if err := r.onPHP(name+"-"+gateway, dir, programs[gateway], func(j *jet) error { return checks(gateway, j) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) onPHP(name, dir, program string, checks func(j *jet) error) error {
	pool, err := r.newPool(name, program)
	if err != nil {
		return err
	}
	if err := pool.up(); err != nil {
		return err
	}
	defer pool.stop()
	j, err := r.serve(tree{name: name, vhost: pool.vhost(dir, "")})
	if err != nil {
		return err
	}
	defer r.down(j)
	return checks(j)
}
