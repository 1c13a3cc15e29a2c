// Words of a text, and the vocabulary of a text's words.
#include "data/text/tokenizers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "data/text/unicode.hpp"

namespace cohort {
namespace {

constexpr std::string_view kUnknownWord = "<unk>";
constexpr std::string_view kEndOfLine = "<eos>";

bool in_word(std::string_view text) {
    if (text.empty()) {
        return false;
    }
    using enum CharacterClass;
    const std::optional<Character> next = first_character(text);
    const CharacterClass kind = next ? class_of(next->value) : kOther;
    return kind == kLetter || kind == kMark || kind == kNumber;
}

/// Bytes of the word at the beginning of a text that begins with a character of a word.
std::size_t word_length(std::string_view text) {
    std::size_t end = 0;
    while (in_word(text.substr(end))) {
        end += first_character(text.substr(end))->bytes;
        const bool joined = end < text.size() && (text[end] == '\'' || text[end] == '-') &&
                            in_word(text.substr(end + 1));
        end += joined ? 1 : 0;
    }
    return end;
}

/// Calls use(word) for each word of a text in UTF-8; other bytes count as characters.
template <class Use>
void each_word(std::string_view text, const Use& use) {
    while (!text.empty()) {
        std::size_t length = 1;
        const std::optional<Character> next = first_character(text);
        if (text.front() == '\n') {
            use(kEndOfLine);
        } else if (text.starts_with(kUnknownWord) || text.starts_with(kEndOfLine)) {
            length = kUnknownWord.size();
            use(text.substr(0, length));
        } else if (next && class_of(next->value) == CharacterClass::kSpace) {
            length = next->bytes;
        } else {
            length = in_word(text) ? word_length(text) : next.value_or(Character{}).bytes;
            use(text.substr(0, length));
        }
        text.remove_prefix(length);
    }
}
static_assert(kUnknownWord.size() == kEndOfLine.size());

/// Whether people write no space before, or after, this word.
bool joins_left(std::string_view word) {
    return !in_word(word) && word != kUnknownWord &&
           std::string_view("([{<\"#$&*+/=@").find(word) == std::string_view::npos;
}
bool joins_right(std::string_view word) {
    return word == kEndOfLine || word == "(" || word == "[" || word == "{";
}

struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
        return std::hash<std::string_view>()(text);
    }
};
template <class T>
using ByWord = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

class WordTokenizer final : public Tokenizer {
public:
    WordTokenizer(std::string_view text, std::string_view where) {
        check_utf8(text, where);
        while (!text.empty()) {
            const std::size_t end = std::min(text.find('\n'), text.size());
            const auto token = static_cast<std::int32_t>(words_.size());
            words_.emplace_back(text.substr(0, end));
            const bool added = tokens_.emplace(words_.back(), token).second;
            require_file(added && end > 0, where, "the vocabulary is damaged",
                         "a word in each line, each word once",
                         fmt::format("'{}' in line {}", words_.back(), token + 1));
            text.remove_prefix(std::min(end + 1, text.size()));
        }
        for (const std::string_view word : {kUnknownWord, kEndOfLine}) {
            require_file(tokens_.contains(word), where, "the vocabulary is damaged",
                         fmt::format("a line {}", word), fmt::format("{} others", words_.size()));
        }
    }

    [[nodiscard]] std::int64_t size() const override {
        return static_cast<std::int64_t>(words_.size());
    }
    [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
        std::vector<std::int32_t> tokens;
        each_word(text, [&](std::string_view word) {
            const auto found = tokens_.find(word);
            tokens.push_back(found == tokens_.end() ? *unknown() : found->second);
        });
        return tokens;
    }
    [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
        std::string text;
        bool joined = true;
        for (const std::int32_t token : tokens) {
            const std::string& word = words_.at(static_cast<std::size_t>(token));
            text += joined || joins_left(word) ? "" : " ";
            text += word == kEndOfLine ? "\n" : word;
            joined = joins_right(word);
        }
        return text;
    }
    [[nodiscard]] std::optional<std::int32_t> unknown() const override {
        return tokens_.find(kUnknownWord)->second;
    }

private:
    std::vector<std::string> words_;
    ByWord<std::int32_t> tokens_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_word_tokenizer(std::string_view text, std::string_view where) {
    return std::make_unique<WordTokenizer>(text, where);
}

Vocabulary vocabulary_of_words(std::span<const std::string> texts, std::int64_t most) {
    ByWord<std::int64_t> counts;
    for (const std::string& text : texts) {
        each_word(text, [&](std::string_view word) {
            const auto found = counts.find(word);
            ++(found != counts.end() ? found : counts.emplace(word, 0).first)->second;
        });
    }
    std::vector<std::pair<std::int64_t, std::string_view>> words;
    for (const auto& [word, count] : counts) {
        if (word != kUnknownWord && word != kEndOfLine) {
            words.emplace_back(-count, word);
        }
    }
    std::ranges::sort(words);
    if (most > 0) {
        words.resize(
            std::min(words.size(), static_cast<std::size_t>(std::max<std::int64_t>(most - 2, 0))));
    }
    Vocabulary vocabulary{.kind = TokenKind::kWords,
                          .text = fmt::format("{}\n{}\n", kUnknownWord, kEndOfLine)};
    for (const auto& [count, word] : words) {
        vocabulary.text.append(word) += '\n';
    }
    return vocabulary;
}

}  // namespace cohort
