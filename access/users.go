package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tg123/go-htpasswd"
)

// Bounds of the files of a realm: what is larger closes it, before memory is taken.
const (
	maxUserFile = 8 << 20 // bytes
	maxUserLine = 4 << 10
)

// Bounds of the work that one look at a password may be. An entry beyond them lets
// nobody in.
const (
	maxBcryptCost = 15
	maxShaRounds  = 1_000_000
)

// user is an entry of a user file.
type user struct {
	name   string
	hash   htpasswd.EncodedPasswd // nil: of a form that is not accepted, so nobody gets in by it
	groups []string               // of the third column
}

// users is what the files of a realm said when they were read. It is immutable but
// for its verdicts.
type users struct {
	byName    map[string]*user
	dummy     htpasswd.EncodedPasswd         // is matched for a name that nobody has; nil: there is no user at all
	groups    map[string]map[string]struct{} // of the group file: user names by group
	err       error                          // of the user file: the realm is closed
	groupErr  error                          // of the group file: what asks for a group is closed
	userFile  stamp
	groupFile stamp

	good, bad verdicts
}

// stamp tells one version of a file from another.
type stamp struct {
	size     int64
	modified time.Time
	file     os.FileInfo // for os.SameFile
}

func (s stamp) same(fi os.FileInfo) bool {
	return s.file != nil && fi != nil && s.size == fi.Size() && s.modified.Equal(fi.ModTime()) && os.SameFile(s.file, fi)
}

func stampOf(fi os.FileInfo) stamp {
	if fi == nil {
		return stamp{}
	}
	return stamp{fi.Size(), fi.ModTime(), fi}
}

// load reads the files of o. It never fails: what it returns is closed then.
func load(o RealmOptions) *users {
	u := &users{good: newVerdicts(o), bad: newVerdicts(o)}
	data, st, err := readUserFile(o.Users)
	u.userFile = st
	if err == nil {
		u.byName, u.dummy, err = parseUsers(data)
	}
	u.err = err
	if o.Groups != "" {
		if data, u.groupFile, err = readUserFile(o.Groups); err == nil {
			u.groups, err = parseGroups(data)
		}
		u.groupErr = err
	}
	return u
}

// changed reports whether the files are not those that u was made of. What cannot be
// read is tried again each time.
func (u *users) changed(o RealmOptions) bool {
	if u.err != nil || u.groupErr != nil {
		return true
	}
	fi, _ := os.Stat(o.Users)
	if !u.userFile.same(fi) {
		return true
	}
	if o.Groups == "" {
		return false
	}
	fi, _ = os.Stat(o.Groups)
	return !u.groupFile.same(fi)
}

// readUserFile reads a regular file of at most maxUserFile bytes.
func readUserFile(name string) ([]byte, stamp, error) {
	fi, err := os.Stat(name)
	if err == nil && !fi.Mode().IsRegular() { // a FIFO would hold up who opens it
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, stamp{}, fileError(name, err)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, stamp{}, fileError(name, err)
	}
	defer f.Close()
	if fi, err = f.Stat(); err != nil { // of what was opened
		return nil, stamp{}, fileError(name, err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxUserFile+1))
	switch {
	case err != nil:
		return nil, stamp{}, fileError(name, err)
	case len(data) > maxUserFile:
		return nil, stampOf(fi), fileError(name, fmt.Errorf("over %d bytes", maxUserFile))
	}
	return data, stampOf(fi), nil
}

func fileError(name string, err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// lines calls do with every line of a user file that holds something: no blanks
// around it, no remark.
func lines(data []byte, do func(line string)) error {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if len(line) > maxUserLine {
			return fmt.Errorf("line %d is over %d bytes", n, maxUserLine)
		}
		if s := strings.TrimSpace(string(line)); s != "" && s[0] != '#' {
			do(s)
		}
	}
	return nil
}

// parseUsers reads lines of "user:hash[:groups]". Of two entries of one user the
// first counts, as in Apache.
func parseUsers(data []byte) (byName map[string]*user, dummy htpasswd.EncodedPasswd, err error) {
	byName = map[string]*user{}
	err = lines(data, func(line string) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok || name == "" || byName[name] != nil {
			return
		}
		hash, groups, _ := strings.Cut(rest, ":")
		u := &user{name: name, hash: encoded(hash), groups: words(groups)}
		if byName[name] = u; dummy == nil {
			dummy = u.hash
		}
	})
	return byName, dummy, err
}

// parseGroups reads lines of "group: user user".
func parseGroups(data []byte) (map[string]map[string]struct{}, error) {
	groups := map[string]map[string]struct{}{}
	err := lines(data, func(line string) {
		name, rest, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return
		}
		members := groups[name]
		if members == nil {
			members = map[string]struct{}{}
			groups[name] = members
		}
		for _, w := range words(rest) {
			members[w] = struct{}{}
		}
	})
	return groups, err
}

func words(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' })
}

var (
	bcryptForm = regexp.MustCompile(`^\$2[abxy]\$([0-9]{2})\$[./0-9A-Za-z]{53}$`)
	md5Form    = regexp.MustCompile(`^\$(?:1|apr1)\$[^$:]{1,8}\$[./0-9A-Za-z]{22}$`)
	sha1Form   = regexp.MustCompile(`^\{SHA\}[+/0-9A-Za-z]{27}=$`)
	shaForm    = regexp.MustCompile(`^\$(?:5|6)\$(?:rounds=([0-9]{1,9})\$)?[^$:]{1,16}\$(?:[./0-9A-Za-z]{43}|[./0-9A-Za-z]{86})$`)
)

// encoded reads the hash of a password: bcrypt, MD5 ($apr1$, $1$), SHA-1 ({SHA}),
// SHA-crypt ($5$, $6$). It is nil for every other form, plain text and the crypt of
// eight characters among them: by those nobody gets in. The forms are tested here
// because the library takes less for granted than it should.
func encoded(s string) htpasswd.EncodedPasswd {
	var accept htpasswd.PasswdParser
	switch {
	case bcryptForm.MatchString(s):
		if cost, _ := strconv.Atoi(bcryptForm.FindStringSubmatch(s)[1]); cost > maxBcryptCost {
			return nil
		}
		accept = htpasswd.AcceptBcrypt
	case md5Form.MatchString(s):
		accept = htpasswd.AcceptMd5
	case sha1Form.MatchString(s):
		accept = htpasswd.AcceptSha
	case shaForm.MatchString(s):
		if r := shaForm.FindStringSubmatch(s)[1]; r != "" {
			if n, _ := strconv.Atoi(r); n < 1000 || n > maxShaRounds {
				return nil
			}
		}
		accept = htpasswd.AcceptCryptSha
	default:
		return nil
	}
	p, err := accept(s)
	if err != nil {
		return nil
	}
	return p
}
