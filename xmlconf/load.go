package xmlconf

// Config is everything read from one server root.
type Config struct {
	Root   string // absolute
	Server *Server
	VHosts []*Host // declared hosts in file order, then members of templates
	Mime   *Mime
	Files  []File // all inputs, in the order of reading
	Hash   string // SHA-256 over names and contents of all inputs, hex (R-CFG-9)
}

// File is one input.
type File struct {
	Path   string
	SHA256 string // hex; empty if the file could not be read
}

// Host is one virtual host: a declaration, or a member of a template, with its
// settings.
type Host struct {
	Name     string
	Root     string     // vhRoot, absolute
	Decl     *VHostDecl // of a member: made from the template's switches
	Template string     // name of the template; empty: declared
	File     string     // file of Conf
	Conf     *VHost     // nil: declared, not loaded (R-CFG-5)

	// Listeners and Domains are the maps that do not stand in a listener: a
	// declaration's listeners with the file's vhDomain and vhAliases, or a
	// template's listeners with the member's.
	Listeners []string
	Domains   []string
}

// Mime maps suffixes to MIME types.
type Mime struct{ types map[string]string }
