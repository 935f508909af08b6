"""The metadata structures of a TIFF file, by dependency: the header, the chain of IFDs, and the values outside of them."""
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
SUB_IFDS = 330


class File:
    """`structures` maps an address to the kind, length and level of what is there. The first `head` bytes are level 1."""

    def __init__(self, data, head):
        self.data, self.head, self.structures = data, head, {}
        self.order = "little" if data[:2] == b"II" else "big"
        big = self.number(2, 2) == 43
        # Bytes of a count of entries, an entry and an offset.
        self.widths = (8, 20, 8) if big else (2, 12, 4)
        below = self.add("header", 0, 16 if big else 8, 1)
        self.ifds(self.number(8 if big else 4, self.widths[2]), below)

    def number(self, at, length):
        return int.from_bytes(self.data[at:at + length], self.order)

    def add(self, kind, at, length, level):
        """Counts a structure. Returns the level of what it points to."""
        level = 1 if at + length <= self.head else level
        self.structures[at] = kind, length, level
        return level + 1

    def ifds(self, at, level):
        counts, entry, offset = self.widths
        while at:
            count = self.number(at, counts)
            end = at + counts + count * entry
            level = self.add("IFD", at, end + offset - at, level)
            for k in range(count):
                self.value(at + counts + k * entry, level)
            at = self.number(end, offset)

    def value(self, entry, level):
        """Counts the value of a tag, if it is not in the entry."""
        offset = self.widths[2]
        tag, kind, count = self.number(entry, 2), self.number(entry + 2, 2), self.number(entry + 4, offset)
        length = SIZES[kind] * count
        if tag == SUB_IFDS:
            raise ValueError("SubIFDs")
        if length > offset:
            self.add(f"values of tag {tag}", self.number(entry + 4 + offset, offset), length, level)
