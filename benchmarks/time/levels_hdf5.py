"""The metadata structures of an HDF5 file, by dependency: a parser of its own, after the HDF5 file format specification 3.0. Covers the structures
of the benchmark files; anything else is an error.

A structure is one level below the one that holds its address. Reads only what finding further structures takes: leaves are counted, not parsed.
"""
import math

UNDEFINED = 2**64 - 1
# Class of a chunked layout, and of datatypes of variable length.
CHUNKED, VLEN = 2, 9


class File:
    """`structures` maps an address to the kind, length and level of what is there. The first `head` bytes are level 1."""

    def __init__(self, data, head):
        self.data, self.head, self.structures = data, head, {}
        superblock(self)

    def add(self, kind, at, length, level):
        """Counts a structure. Returns the level of what it points to."""
        level = 1 if at + length <= self.head else level
        known = self.structures.get(at, (kind, length, level))
        self.structures[at] = kind, max(length, known[1]), min(level, known[2])
        return level + 1

    def number(self, at, length=8):
        return int.from_bytes(self.data[at:at + length], "little")

    def addresses(self, at, count):
        return [address for k in range(count) if (address := self.number(at + 8 * k)) != UNDEFINED]

    def expect(self, at, signature):
        found = self.data[at:at + 4]
        if found != signature:
            raise ValueError(f"{found!r} at {at:#x}, expected {signature!r}")

    def next(self, kind, at, length, level):
        """Checks a structure's signature, which is the kind, and counts it."""
        self.expect(at, kind.encode())
        return self.add(kind, at, length, level)


def superblock(file):
    version = file.data[8]
    below = file.add("superblock", 0, 96 if version < 2 else 48, 1)
    if version < 2:
        entry = 56 if version == 0 else 60
        symbol(file, entry, below)
    else:
        object_header(file, file.number(36), below)


def symbol(file, entry, level):
    """A symbol table entry. One that caches a group's tree and heap saves the wait for the group's header."""
    if file.number(entry + 16, 4) == 1:
        group(file, file.number(entry + 24), file.number(entry + 32), level)
    object_header(file, file.number(entry + 8), level)


def object_header(file, at, level):
    if file.data[at:at + 4] == b"OHDR":
        header_2(file, at, level)
    else:
        length = 16 + file.number(at + 8, 4)
        below = file.add("object header", at, length, level)
        messages(file, at + 16, at + length, 8, below)


def header_2(file, at, level):
    flags = file.data[at + 5]
    start = at + 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
    width = 1 << (flags & 3)
    length = start - at + width + file.number(start, width) + 4
    below = file.add("object header", at, length, level)
    messages(file, start + width, at + length - 4, 6 if flags & 4 else 4, below)


def messages(file, at, end, head, level):
    """Follows the messages of a part of an object header, whose heads have `head` bytes."""
    while at + head <= end:
        kind, size = (file.number(at, 2), file.number(at + 2, 2)) if head == 8 else (file.data[at], file.number(at + 1, 2))
        message(file, kind, at + head, size, head, level)
        at += head + size


def message(file, kind, at, size, head, level):
    if kind == 0x10:
        continuation(file, file.number(at), file.number(at + 8), head, level)
    elif kind == 0x02:
        heap, tree = file.addresses(at + (10 if file.data[at + 1] & 1 else 2), 2) or (UNDEFINED, UNDEFINED)
        dense(file, heap, tree, link, level)
    elif kind == 0x15:
        heap, tree = file.addresses(at + (4 if file.data[at + 1] & 1 else 2), 2) or (UNDEFINED, UNDEFINED)
        dense(file, heap, tree, attribute, level)
    elif kind == 0x06:
        link(file, at, level)
    elif kind == 0x08:
        layout(file, at, level)
    elif kind == 0x0C:
        attribute(file, at, level)
    elif kind == 0x11:
        group(file, file.number(at), file.number(at + 8), level)


def continuation(file, at, length, head, level):
    if head == 8:
        messages(file, at, at + length, 8, file.add("continuation", at, length, level))
    else:
        file.expect(at, b"OCHK")
        messages(file, at + 4, at + length - 4, head, file.add("continuation", at, length, level))


def link(file, at, level):
    flags = file.data[at + 1]
    if flags & 8 and file.data[at + 2] != 0:
        return
    start = at + 2 + (1 if flags & 8 else 0) + (8 if flags & 4 else 0) + (1 if flags & 16 else 0)
    width = 1 << (flags & 3)
    object_header(file, file.number(start + width + file.number(start, width)), level)


def attribute(file, at, level):
    """The values of variable length are in global heaps."""
    version, name, datatype, dataspace = file.data[at], *(file.number(at + k, 2) for k in (2, 4, 6))
    pad = (lambda n: -(-n // 8) * 8) if version == 1 else (lambda n: n)
    start = at + (9 if version == 3 else 8) + pad(name)
    if file.data[start] & 15 != VLEN:
        return
    space = start + pad(datatype)
    extent = space + (8 if file.data[space] == 1 else 4)
    count = math.prod(file.number(extent + 8 * k) for k in range(file.data[space + 1]))
    values = space + pad(dataspace)
    for address in {file.number(values + 16 * k + 4) for k in range(count) if file.number(values + 16 * k, 4)}:
        file.next("GCOL", address, file.number(address + 8), level)


def group(file, tree, heap, level):
    """A group of symbol tables: a version-1 B-tree and a local heap with the names."""
    if heap not in file.structures:
        size, data = file.number(heap + 8), file.number(heap + 24)
        together = data == heap + 32
        below = file.next("HEAP", heap, 32 + (size if together else 0), level)
        if not together:
            file.add("heap data", data, size, below)
    if file.structures.get(tree, ("", 0, level + 1))[2] > level:
        tree_1(file, tree, 8, level, symbols)


def symbols(file, at, level):
    count = file.number(at + 6, 2)
    below = file.next("SNOD", at, 8 + 40 * count, level)
    for k in range(count):
        symbol(file, at + 8 + 40 * k, below)


def tree_1(file, at, key, level, leaf=None):
    count, depth = file.number(at + 6, 2), file.data[at + 5]
    below = file.next("TREE", at, 24 + count * (key + 8) + key, level)
    for child in (file.number(at + 24 + key + k * (key + 8)) for k in range(count if depth or leaf else 0)):
        tree_1(file, child, key, below, leaf) if depth else leaf(file, child, below)


def layout(file, at, level):
    version, kind = file.data[at], file.data[at + 1]
    if version not in (3, 4):
        raise ValueError(f"layout message at {at:#x}: version {version}")
    if kind == CHUNKED and version == 3:
        dimensions, address = file.data[at + 2], file.number(at + 3)
        address == UNDEFINED or tree_1(file, address, 8 + 8 * dimensions, level)
    elif kind == CHUNKED:
        index(file, at, level)


def index(file, at, level):
    flags, dimensions, width = file.data[at + 2:at + 5]
    start = at + 5 + dimensions * width
    kind = file.data[start]
    skip, follow = {1: (12 if flags & 2 else 0, None), 2: (0, None), 3: (1, fixed_array), 4: (5, extensible_array), 5: (6, tree_2)}[kind]
    address = file.number(start + 1 + skip)
    if follow and address != UNDEFINED:
        follow(file, address, level)


def fixed_array(file, at, level):
    below = file.next("FAHD", at, 28, level)
    width, bits, count, block = file.data[at + 6], file.data[at + 7], file.number(at + 8), file.number(at + 16)
    pages = -(-count // (1 << bits)) if count > 1 << bits else 0
    length = 18 + count * width + (-(-pages // 8) + 4 * pages if pages else 0)
    file.next("FADB", block, length, below)


def extensible_array(file, at, level):
    below = file.next("EAHD", at, 72, level)
    width, bits, inline, least, pointers, page_bits = file.data[at + 6:at + 12]
    block, first = file.number(at + 60), 2 * (pointers.bit_length() - 1)
    blocks = 1 + bits - (least.bit_length() - 1)
    data, supers = 2 * (pointers - 1), blocks - first
    start = block + 14 + inline * width
    under = file.next("EAIB", block, 14 + inline * width + 8 * (data + supers) + 4, below)
    sizes = [least << ((u + 1) // 2) for u in range(first) for _ in range(1 << u // 2)]
    array = dict(width=width, offset=-(-bits // 8), page=1 << page_bits)
    for k, elements in enumerate(sizes):
        data_block(file, file.number(start + 8 * k), elements, under, **array)
    for k in range(supers):
        u = first + k
        super_block(file, file.number(start + 8 * (data + k)), 1 << u // 2, least << ((u + 1) // 2), under, array)


def super_block(file, at, count, elements, level, array):
    if at == UNDEFINED:
        return
    pages = elements // array["page"] if elements > array["page"] else 0
    start = at + 14 + array["offset"] + count * -(-pages // 8)
    below = file.next("EASB", at, start - at + 8 * count + 4, level)
    for address in file.addresses(start, count):
        data_block(file, address, elements, below, **array)


def data_block(file, at, elements, level, width, offset, page):
    """The pages of a large block are at known distances, so its head is not read."""
    if at == UNDEFINED:
        return
    file.expect(at, b"EADB")
    pages, head = elements // page if elements > page else 0, 14 + offset
    if pages:
        file.add("pages of EADB", at + head + 4, elements * width + 4 * pages, level)
    else:
        file.add("EADB", at, head + elements * width + 4, level)


def enough(number):
    """Bytes that hold numbers up to this one."""
    return (number.bit_length() + 7) // 8


def tree_2(file, at, level, leaf=lambda at, count, width, level: None):
    below = file.next("BTHD", at, 38, level)
    node, width, depth = file.number(at + 6, 4), file.number(at + 10, 2), file.number(at + 12, 2)
    root, count = file.number(at + 16), file.number(at + 24, 2)
    most = (node - 10) // width
    # The most records below a child, and the bytes of a pointer to it, by depth.
    below_child, pointers = [most], [0]
    for d in range(1, depth + 1):
        pointers.append(8 + enough(most) + (enough(below_child[d - 1]) if d > 1 else 0))
        fits = (node - 10 - pointers[d]) // (width + pointers[d])
        below_child.append((fits + 1) * below_child[d - 1] + fits)

    def visit(at, count, depth, level):
        if depth == 0:
            leaf(at + 6, count, width, file.next("BTLF", at, 10 + count * width, level))
            return
        start, pointer = at + 6 + count * width, pointers[depth]
        under = file.next("BTIN", at, start - at + (count + 1) * pointer + 4, level)
        leaf(at + 6, count, width, under)
        for child in range(start, start + (count + 1) * pointer, pointer):
            visit(file.number(child), file.number(child + 8, enough(most)), depth - 1, under)

    if root != UNDEFINED:
        visit(root, count, depth, below)


def dense(file, heap, tree, object_at, level):
    """Links or attributes in a fractal heap, which a version-2 B-tree by name lists."""
    if heap == UNDEFINED:
        return
    blocks, found = fractal_heap(file, heap, level), []
    # A record of names of links starts with the hash; one of attributes with the heap's id.
    before = 4 if object_at is link else 0
    bits, largest = file.number(heap + 128, 2), min(file.number(heap + 120), file.number(heap + 10, 4))
    width, length_width = -(-bits // 8), enough(largest)

    def records(at, count, size, level):
        for record in range(at + before, at + before + count * size, size):
            if file.data[record] >> 4 & 3 == 0:
                found.append((file.number(record + 1, width), level))

    tree_2(file, tree, level, records)
    for offset, known in found:
        start, address, under = next(block for block in blocks if block[0] <= offset < block[0] + block[3])[:3]
        object_at(file, address + offset - start, max(known, under))


def fractal_heap(file, at, level):
    """Returns the direct blocks: offset in the heap, address, level of what they point to, and length."""
    below = file.next("FRHP", at, 146, level)
    table = dict(width=file.number(at + 110, 2), start=file.number(at + 112), largest=file.number(at + 120), offset=-(-file.number(at + 128, 2) // 8))
    root, rows, blocks = file.number(at + 132), file.number(at + 140, 2), []
    if root == UNDEFINED:
        return blocks
    if rows == 0:
        blocks.append((0, root, file.next("FHDB", root, table["start"], below), table["start"]))
    else:
        indirect_block(file, root, 0, rows, below, blocks, **table)
    return blocks


def indirect_block(file, at, offset_in_heap, rows, level, blocks, width, start, largest, offset):
    under = file.next("FHIB", at, 13 + offset + 8 * rows * width + 4, level)
    for k in range(rows * width):
        row = k // width
        size = start if row == 0 else start << row - 1
        child = file.number(at + 13 + offset + 8 * k)
        if child != UNDEFINED and size <= largest:
            blocks.append((offset_in_heap, child, file.next("FHDB", child, size, under), size))
        elif child != UNDEFINED:
            inner = (size // (start * width)).bit_length()
            indirect_block(file, child, offset_in_heap, inner, under, blocks, width, start, largest, offset)
        offset_in_heap += size
