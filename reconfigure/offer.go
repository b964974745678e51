package reconfigure

// Offer is what a cloud has for the instances of a new declaration, by name, sorted. A name that several of them have
// is in it several times, and cannot be declared: their ids can.
type Offer struct {
	Images, Flavors, Networks []string
}
