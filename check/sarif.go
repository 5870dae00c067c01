package check

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// The parts of SARIF 2.1.0 that a check fills; names are those of the standard.
// A region's columns count bytes, as everywhere in httpjet: they are right for
// lines of ASCII.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool            `json:"tool"`
		Bases   map[string]sarifBase `json:"originalUriBaseIds,omitempty"`
		Columns string               `json:"columnKind"`
		Results []sarifResult        `json:"results"`
	}
	sarifBase struct {
		URI string `json:"uri"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string       `json:"id"`
		Short sarifMessage `json:"shortDescription"`
		Help  sarifMessage `json:"help"`
		Level sarifDefault `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		Rule      string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

// sarifRoot is what relative paths of findings are relative to.
const sarifRoot = "SERVERROOT"

// sarifLevels are the standard's words for severities.
var sarifLevels = map[string]string{"error": "error", "warn": "warning", "info": "note"}

// sarif returns the findings as a log of SARIF 2.1.0.
func (r *Report) sarif(version string) sarifLog {
	run := sarifRun{Columns: "utf16CodeUnits", Results: []sarifResult{},
		Tool: sarifTool{sarifDriver{Name: "httpjet", Version: version, Rules: []sarifRule{}}}}
	if r.Summary != nil {
		run.Bases = map[string]sarifBase{sarifRoot: {"file://" + (&url.URL{Path: strings.TrimSuffix(filepath.ToSlash(r.Root), "/") + "/"}).EscapedPath()}}
	}
	index := map[string]int{}
	for _, f := range r.Findings {
		if _, known := index[f.Code]; !known {
			index[f.Code] = len(run.Tool.Driver.Rules)
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, ruleOf(f))
		}
		run.Results = append(run.Results, f.sarif(index[f.Code], run.Bases != nil))
	}
	return sarifLog{"https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", "2.1.0", []sarifRun{run}}
}

// ruleOf describes a code from the catalogue.
func ruleOf(f Finding) sarifRule {
	rule := sarifRule{ID: f.Code, Short: sarifMessage{f.Code}, Help: sarifMessage{"see docs/findings.md"}, Level: sarifDefault{sarifLevels[f.Severity]}}
	if i := slices.IndexFunc(Codes, func(c Code) bool { return c.Code == f.Code }); i >= 0 {
		rule.Short.Text = Codes[i].Means
		if Codes[i].Do != "" {
			rule.Help.Text = Codes[i].Do
		}
	}
	return rule
}

func (f Finding) sarif(rule int, below bool) sarifResult {
	out := sarifResult{Rule: f.Code, RuleIndex: rule, Level: sarifLevels[f.Severity], Message: sarifMessage{f.Message}}
	if f.Hint != "" {
		out.Message.Text += " (" + f.Hint + ")"
	}
	var at sarifLocation
	if f.File != "" {
		at.Physical = &sarifPhysical{Region: sarifRegion{max(f.Line, 1), max(f.Column, 1)}}
		u := url.URL{Path: filepath.ToSlash(f.File)}
		if filepath.IsAbs(f.File) {
			u.Scheme = "file"
		} else if below {
			at.Physical.Artifact.Base = sarifRoot
		}
		at.Physical.Artifact.URI = u.String()
	}
	if f.Element != "" {
		at.Logical = []sarifLogical{{f.Element, "element"}}
	}
	if at.Physical != nil || at.Logical != nil {
		out.Locations = []sarifLocation{at}
	}
	return out
}
