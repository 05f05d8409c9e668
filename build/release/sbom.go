package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// The types below are the parts of an SPDX 2.3 document that a release uses.
type spdxDocument struct {
	SPDXVersion       string             `json:"spdxVersion"`
	DataLicense       string             `json:"dataLicense"`
	SPDXID            string             `json:"SPDXID"`
	Name              string             `json:"name"`
	DocumentNamespace string             `json:"documentNamespace"`
	CreationInfo      spdxCreation       `json:"creationInfo"`
	Packages          []spdxPackage      `json:"packages"`
	Relationships     []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	SPDXID           string         `json:"SPDXID"`
	Name             string         `json:"name"`
	VersionInfo      string         `json:"versionInfo"`
	DownloadLocation string         `json:"downloadLocation"`
	FilesAnalyzed    bool           `json:"filesAnalyzed"`
	LicenseConcluded string         `json:"licenseConcluded"`
	LicenseDeclared  string         `json:"licenseDeclared"`
	CopyrightText    string         `json:"copyrightText"`
	Purpose          string         `json:"primaryPackagePurpose,omitempty"`
	Checksums        []spdxChecksum `json:"checksums,omitempty"`
	ExternalRefs     []spdxRef      `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const documentID = "SPDXRef-DOCUMENT"

// newDocument returns an SPDX document without packages. The caller first adds the package that the document describes; it gets the id
// SPDXRef-0.
func (r *release) newDocument(name string) *spdxDocument {
	return &spdxDocument{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: documentID, Name: name,
		DocumentNamespace: fmt.Sprintf("https://github.com/toold-dev/toold/spdx/%s-%s", name, r.commit),
		CreationInfo:      spdxCreation{r.made.Format(time.RFC3339), []string{"Tool: toold-release-" + r.version}},
	}
}

// add adds a package. sha256 and purl may be empty.
func (d *spdxDocument) add(name, version, license, purpose, sha256, purl string) (id string) {
	id = fmt.Sprintf("SPDXRef-%d", len(d.Packages))
	p := spdxPackage{
		SPDXID: id, Name: name, VersionInfo: version, DownloadLocation: "NOASSERTION", LicenseConcluded: license, LicenseDeclared: license,
		CopyrightText: "NOASSERTION", Purpose: purpose,
	}
	if sha256 != "" {
		p.Checksums = []spdxChecksum{{"SHA256", sha256}}
	}
	if purl != "" {
		p.ExternalRefs = []spdxRef{{"PACKAGE-MANAGER", "purl", purl}}
	}
	d.Packages = append(d.Packages, p)
	return id
}

func (d *spdxDocument) relate(element, how, related string) {
	d.Relationships = append(d.Relationships, spdxRelationship{element, how, related})
}

func (d *spdxDocument) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// writeProgramSBOM writes which modules the programs contain.
func (r *release) writeProgramSBOM(programs []program, parts []component) error {
	d := r.newDocument("toold-" + r.version)
	toold := d.add("github.com/toold-dev/toold", r.version, "Apache-2.0", "SOURCE", "", "pkg:golang/github.com/toold-dev/toold@"+r.tag)
	d.relate(documentID, "DESCRIBES", toold)
	for _, p := range programs {
		sum, err := sumOf(p.path)
		if err != nil {
			return err
		}
		d.relate(d.add(fmt.Sprintf("%s_linux_%s", p.name, p.arch), r.version, "NOASSERTION", "APPLICATION", sum, ""), "GENERATED_FROM", toold)
	}
	for _, c := range parts {
		d.relate(toold, "DEPENDS_ON", d.add(c.path, c.version, c.license, "LIBRARY", c.sha256, "pkg:golang/"+strings.ToLower(c.path)+"@"+url.QueryEscape(c.version)))
	}
	return r.create(fmt.Sprintf("toold_%s.spdx.json", r.version), d.write)
}

// writeImageSBOM writes which Debian packages the image of an architecture contains.
func (r *release) writeImageSBOM(arch string, packages []debianPackage) error {
	d := r.newDocument(fmt.Sprintf("toold-image-%s-%s", arch, r.version))
	image := d.add("toold-image-"+arch, r.version, "NOASSERTION", "CONTAINER", "", "")
	d.relate(documentID, "DESCRIBES", image)
	d.relate(image, "CONTAINS", d.add("github.com/toold-dev/toold", r.version, "Apache-2.0", "APPLICATION", "", "pkg:golang/github.com/toold-dev/toold@"+r.tag))
	for _, p := range packages {
		purl := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", p.name, url.QueryEscape(p.version), arch)
		d.relate(image, "CONTAINS", d.add(p.name, p.version, "NOASSERTION", "LIBRARY", p.sha256, purl))
	}
	return r.create(fmt.Sprintf("toold_%s_image_%s.spdx.json", r.version, arch), d.write)
}
