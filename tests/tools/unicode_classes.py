#!/usr/bin/env python3
"""Prints data/text/unicode_classes.cpp: the letters, marks and numbers of Python's Unicode.

    unicode_classes.py > data/text/unicode_classes.cpp; tests/tools/check_format.py . --fix
"""

import unicodedata

CLASSES = {"L": "kLetter", "M": "kMark", "N": "kNumber"}


def ranges():
    """(first, last, class) of each run of characters of one class."""
    runs = []
    for character in range(0x110000):
        kind = CLASSES.get(unicodedata.category(chr(character))[0])
        if kind is None:
            continue
        if runs and runs[-1][1] == character - 1 and runs[-1][2] == kind:
            runs[-1][1] = character
        else:
            runs.append([character, character, kind])
    return runs


def main():
    print(f"// Made by tests/tools/unicode_classes.py from Unicode {unicodedata.unidata_version}.")
    print('#include "data/text/unicode.hpp"\n\n#include <algorithm>\n#include <array>\n')
    print("namespace cohort {\nnamespace {\n\nusing enum CharacterClass;\n")
    print("struct ClassRange {\n    char32_t first;\n    char32_t last;\n    CharacterClass kind;\n};\n")
    runs = ranges()
    print(f"constexpr std::array<ClassRange, {len(runs)}> kRanges{{{{")
    print(", ".join(f"{{0x{first:X}, 0x{last:X}, {kind}}}" for first, last, kind in runs))
    print("}};\n\n}  // namespace\n")
    print("""CharacterClass class_of(char32_t character) {
    if ((character >= 0x09 && character <= 0x0D) || character == ' ' || character == 0x85 ||
        character == 0xA0 || character == 0x1680 || (character >= 0x2000 && character <= 0x200A) ||
        character == 0x2028 || character == 0x2029 || character == 0x202F || character == 0x205F ||
        character == 0x3000) {
        return kSpace;
    }
    const auto* found = std::ranges::lower_bound(kRanges, character, {}, &ClassRange::last);
    return found == kRanges.end() || character < found->first ? kOther : found->kind;
}

}  // namespace cohort""")


if __name__ == "__main__":
    main()
