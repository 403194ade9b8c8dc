package geo

// partialSort sorts the n smallest points to the front. It is the quicksort of Bentley and McIlroy ("Engineering a Sort
// Function", 1993), without the parts that do not matter. Redis uses the same sort. It is not stable: which of several
// members at the same distance a result with COUNT contains, and in which order, depends on every exchange. So the
// exchanges here must stay exactly as they are.
func partialSort(p []point, n int, compare func(a, b *point) int) {
	for start := 0; start < n; {
		if len(p) < 7 {
			insertionSort(p, compare)
			return
		}
		swap(p, 0, pivot(p, compare))
		less, more := partition(p, compare)
		if less > 1 {
			partialSort(p[:less], n-start, compare)
		}
		if more <= 1 {
			return
		}
		start += len(p) - more
		p = p[len(p)-more:]
	}
}

func swap(p []point, i, j int) { p[i], p[j] = p[j], p[i] }

func insertionSort(p []point, compare func(a, b *point) int) {
	for i := 1; i < len(p); i++ {
		for j := i; j > 0 && compare(&p[j-1], &p[j]) > 0; j-- {
			swap(p, j, j-1)
		}
	}
}

// pivot returns the index of the median of three points, in large slices of three medians of three.
func pivot(p []point, compare func(a, b *point) int) int {
	mid := len(p) / 2
	if len(p) == 7 {
		return mid
	}
	lo, hi := 0, len(p)-1
	if len(p) > 40 {
		d := len(p) / 8
		lo = median(p, lo, lo+d, lo+2*d, compare)
		mid = median(p, mid-d, mid, mid+d, compare)
		hi = median(p, hi-2*d, hi-d, hi, compare)
	}
	return median(p, lo, mid, hi, compare)
}

func median(p []point, a, b, c int, compare func(a, b *point) int) int {
	if compare(&p[a], &p[b]) < 0 {
		switch {
		case compare(&p[b], &p[c]) < 0:
			return b
		case compare(&p[a], &p[c]) < 0:
			return c
		}
		return a
	}
	switch {
	case compare(&p[b], &p[c]) > 0:
		return b
	case compare(&p[a], &p[c]) < 0:
		return a
	}
	return c
}

// partition partitions the points by the first one and returns how many are less and how many are greater. Equal points
// are gathered at both ends and then moved to the middle.
func partition(p []point, compare func(a, b *point) int) (less, more int) {
	a, b, c, d := 1, 1, len(p)-1, len(p)-1
	for {
		for b <= c {
			r := compare(&p[b], &p[0])
			if r > 0 {
				break
			}
			if r == 0 {
				swap(p, a, b)
				a++
			}
			b++
		}
		for b <= c {
			r := compare(&p[c], &p[0])
			if r < 0 {
				break
			}
			if r == 0 {
				swap(p, c, d)
				d--
			}
			c--
		}
		if b > c {
			break
		}
		swap(p, b, c)
		b++
		c--
	}
	less, more = b-a, d-c
	exchange(p, 0, b, min(a, less))
	exchange(p, b, len(p), min(more, len(p)-1-d))
	return less, more
}

// exchange swaps the n points from i on with the n points before end.
func exchange(p []point, i, end, n int) {
	for j := end - n; j < end; i, j = i+1, j+1 {
		swap(p, i, j)
	}
}
