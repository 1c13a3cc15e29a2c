#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/words.hpp"

namespace cohort {

enum class TokenKind {
    kWords,  ///< words, punctuation marks and ends of lines
    kBytes,  ///< the 256 bytes of UTF-8
    kBpe     ///< byte pairs of a tokenizer.json
};

template <>
inline constexpr auto kWords<TokenKind> = std::to_array<std::string_view>({"words", "bytes",
                                                                           "bpe"});

/// What the tokens of a text are, in the form in which data sets and models keep it.
struct Vocabulary {
    TokenKind kind = TokenKind::kBytes;
    /// words: one per line, the line's number from 0 being the token; bpe: the tokenizer.json;
    /// bytes: nothing.
    std::string text;
};

/// Turns text into tokens and back. Immutable, so thread safe.
///
/// Words keep their case. A word is a run of letters, marks and digits of any script, with single
/// apostrophes and hyphens within it; any other character but white space is a word of its own.
/// White space is dropped, but the end of a line is the word <eos>. A text's "<unk>" and "<eos>"
/// are these words. Words outside the vocabulary are <unk>.
///
/// Byte pairs: Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword
/// Units", 2016, on bytes as in GPT-2: the text is cut by GPT-2's pattern into words with the space
/// before them, numbers and runs of other characters; within each, the pair of the lowest rank is
/// merged until none is left.
class Tokenizer {
public:
    Tokenizer() = default;
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;
    virtual ~Tokenizer() = default;

    /// Largest token plus one.
    [[nodiscard]] virtual std::int64_t size() const = 0;
    /// @param text  UTF-8
    [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
    /// The text of tokens in [0, size()); of bytes and byte pairs the exact one, which may begin or
    /// end within a character.
    [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
    /// The token of what is not in the vocabulary; none: everything is.
    [[nodiscard]] virtual std::optional<std::int32_t> unknown() const { return std::nullopt; }
};

/// Errors: FileError naming `where`, the file that holds the vocabulary, for a text that is none.
[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(const Vocabulary& vocabulary,
                                                        std::string_view where);

/// The most frequent words of texts, most frequent first, after <unk> and <eos>; of equally
/// frequent ones the first in the order of bytes. @param most  words in all, 0: no limit
[[nodiscard]] Vocabulary vocabulary_of_words(std::span<const std::string> texts, std::int64_t most);

/// FileError naming `where` and the place of the first byte that is not UTF-8.
void check_utf8(std::string_view text, std::string_view where);

}  // namespace cohort
