package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"httpjet/exchange"
)

// Bounds of a setting of PHP, and of how many one place may have.
const (
	maxSettingName  = 128
	maxSettingValue = 4 << 10
	maxSettings     = 256
)

// PHPSetting reads php_value, php_flag, php_admin_value or php_admin_flag (in lower
// case) with its arguments. The setting of a flag is "1" or "0", and the value none is
// the empty one.
func PHPSetting(directive string, args []string) (exchange.Setting, error) {
	s := exchange.Setting{Fixed: strings.HasPrefix(directive, "php_admin_")}
	if len(args) != 2 {
		return s, fmt.Errorf("it has a name and a value")
	}
	s.Name, s.Value = strings.Clone(args[0]), strings.Clone(args[1])
	switch {
	case s.Name == "" || len(s.Name) > maxSettingName || strings.ContainsFunc(s.Name, func(c rune) bool {
		return !(c == '_' || c == '.' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}):
		return s, fmt.Errorf("%.40q is no name of a setting of PHP", s.Name)
	case len(s.Value) > maxSettingValue || clean(s.Value) != s.Value:
		return s, fmt.Errorf("the value is over %d bytes, or has control characters", maxSettingValue)
	case strings.Contains(s.Value, "'") && strings.ContainsAny(s.Value, `"\$`): // there is no way to write it for all
		return s, fmt.Errorf("the value has a single quote and one of \", \\ and $")
	case !strings.HasSuffix(directive, "_flag"):
		if strings.EqualFold(s.Value, "none") {
			s.Value = ""
		}
		return s, nil
	}
	switch strings.ToLower(s.Value) {
	case "on", "1", "true", "yes":
		s.Value = "1"
	case "off", "0", "false", "no":
		s.Value = "0"
	default:
		return s, fmt.Errorf("%.40q is neither on nor off", s.Value)
	}
	return s, nil
}

// PHPSettings reads phpIniOverride: one directive a line, # begins a comment. fault is
// called for each line that cannot be read, with its number from 0; fixed says that it
// was to be an administrator's.
func PHPSettings(text string, fault func(line int, fixed bool, err error)) (list []exchange.Setting) {
	n := -1
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		args := words(line)
		name := strings.ToLower(args[0])
		s, err := exchange.Setting{}, fmt.Errorf("%.40q is none of php_value, php_flag, php_admin_value and php_admin_flag", args[0])
		switch name {
		case "php_value", "php_flag", "php_admin_value", "php_admin_flag":
			s, err = PHPSetting(name, args[1:])
		}
		if err == nil && len(list) == maxSettings {
			err = fmt.Errorf("there are more than %d settings", maxSettings)
		}
		if err != nil {
			fault(n, strings.HasPrefix(name, "php_admin"), err)
			continue
		}
		list = MergePHP(list, s)
	}
	return list
}

// MergePHP returns base with more behind it. A later setting replaces an earlier one of
// its name, but one that is not fixed none that is. base stays as it is.
func MergePHP(base []exchange.Setting, more ...exchange.Setting) []exchange.Setting {
	if len(more) == 0 {
		return base
	}
	list := slices.Clone(base)
	for _, s := range more {
		i := slices.IndexFunc(list, func(o exchange.Setting) bool { return o.Name == s.Name })
		switch {
		case i < 0:
			list = append(list, s)
		case s.Fixed || !list[i].Fixed:
			list[i] = s
		}
	}
	return list
}

// EngineOff reports that the settings let no script run. A PHP that is asked all the
// same shows its source.
func EngineOff(list []exchange.Setting) bool {
	for i := range list {
		if s := &list[i]; s.Name == "engine" {
			return s.Value == "" || s.Value == "0" || engineOff([]string{s.Name, s.Value})
		}
	}
	return false
}

// PHP returns base with the settings of PHP that the files say behind it. base stays as
// it is.
func (s *Settings) PHP(base []exchange.Setting) []exchange.Setting {
	for _, said := range s.list {
		base = MergePHP(base, said.php...)
	}
	return base
}
