package exchange

// Variables of rules and .htaccess files are in x.Env; some of them steer the server
// itself, whatever the case of their names (see docs/rules.md).

// Variable returns the value of the last variable called name, in any case; "" if none
// has set it.
func (x *Exchange) Variable(name string) string {
	for i := len(x.Env) - 1; i >= 0; i-- {
		if EqualName(x.Env[i].Name, name) {
			return x.Env[i].Value
		}
	}
	return ""
}

// Says reports whether the variable called name is switched on: it is set, and is
// neither empty nor 0.
func (x *Exchange) Says(name string) bool {
	if len(x.Env) == 0 { // of almost every exchange
		return false
	}
	v := x.Variable(name)
	return v != "" && v != "0"
}
