package ranking

// Entry is a member, its score and its rank. The first rank is 1.
type Entry struct {
	Rank   int64
	Member string
	Score  float64
}

// Standing is an Entry among Total members.
type Standing struct {
	Entry
	Total int64
}

// Update is what a write did, and where the member stands now.
type Update struct {
	Standing
	// Changed says whether the stored score is another than before, or the member is new. When a reply was lost and the
	// write was sent again, it can be false though the first sending changed the score; the standing is right even so.
	Changed bool
}
