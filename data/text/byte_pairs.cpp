// Byte pair encoding on bytes, as a tokenizer.json of Hugging Face's tokenizers describes it: a
// "BPE" model behind the pre-tokenizer "ByteLevel". Parts of the file that would change the
// tokens in another way are refused by name.
//
// A piece of text of n bytes is merged in O(n log n): a heap of the pairs that can be merged, by
// rank and then by place; pairs that a merge has changed are skipped when they come up.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <queue>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "data/text/tokenizers.hpp"
#include "data/text/unicode.hpp"

namespace cohort {
namespace {

using PairJson = nlohmann::json;

/// Characters that GPT-2 writes for bytes: printable ones for themselves, those from 256 on for
/// others, in their order.
std::array<char32_t, 256> characters_of_bytes() {
    std::array<char32_t, 256> characters{};
    char32_t next = 256;
    for (char32_t byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
        characters[byte] = printable ? byte : next++;
    }
    return characters;
}

/// The bytes that a token of the file stands for; none: not written in these characters.
std::optional<std::string> bytes_of_token(std::string_view token) {
    static const std::unordered_map<char32_t, char> bytes = [] {
        std::unordered_map<char32_t, char> result;
        const auto characters = characters_of_bytes();
        for (std::size_t byte = 0; byte < characters.size(); ++byte) {
            result[characters[byte]] = static_cast<char>(byte);
        }
        return result;
    }();
    std::string result;
    while (!token.empty()) {
        const std::optional<Character> next = first_character(token);
        const auto found = bytes.find(next ? next->value : 0);
        if (found == bytes.end()) {
            return std::nullopt;
        }
        result += found->second;
        token.remove_prefix(next->bytes);
    }
    return result;
}

/// Bytes of the contraction at the beginning of a text; 0: none.
std::size_t contraction_length(std::string_view text) {
    for (const std::string_view one : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
        if (text.starts_with(one)) {
            return one.size();
        }
    }
    return 0;
}

CharacterClass kind_at(std::string_view text) {
    const CharacterClass kind = class_of(first_character(text).value_or(Character{}).value);
    return kind == CharacterClass::kMark ? CharacterClass::kOther : kind;
}

/// Bytes and last character of the run of one kind at the beginning of a text.
std::pair<std::size_t, std::size_t> run_length(std::string_view text, CharacterClass kind) {
    std::size_t end = 0;
    std::size_t last = 0;
    while (end < text.size() && kind_at(text.substr(end)) == kind) {
        last = first_character(text.substr(end)).value_or(Character{}).bytes;
        end += last;
    }
    return {end, last};
}

/// Bytes of the first match of GPT-2's pattern
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ in a text.
std::size_t piece_length(std::string_view text) {
    if (const std::size_t length = contraction_length(text); length > 0) {
        return length;
    }
    const std::size_t space = text.front() == ' ' && text.size() > 1 ? 1 : 0;
    const CharacterClass kind = kind_at(text.substr(space));
    if (kind != CharacterClass::kSpace) {
        return space + run_length(text.substr(space), kind).first;
    }
    const auto [length, last] = run_length(text, kind);
    return length == text.size() || length == last ? length : length - last;
}

/// A pair of neighbours that can be merged.
struct MergeChoice {
    std::int32_t rank = 0;
    std::size_t left = 0;    ///< place of its first byte
    std::uint64_t pair = 0;  ///< the two tokens
    friend bool operator>(const MergeChoice& a, const MergeChoice& b) {
        return std::tie(a.rank, a.left) > std::tie(b.rank, b.left);
    }
};

/// Refuses by name what would change the tokens and is not read here.
void check_json(const PairJson& json, std::string_view where) {
    const auto refuse = [&](std::string_view what, std::string_view expected, const PairJson& got) {
        fail<FileError>(
            {.where = where,
             .what = what,
             .expected = expected,
             .got = got.dump(-1, ' ', false, PairJson::error_handler_t::replace).substr(0, 80),
             .hint = "--tokens words or bytes"});
    };
    const auto require_null = [&](const PairJson& object, const char* name) {
        const PairJson value = object.value(name, PairJson());
        const bool no_text = value.is_string() && value.get<std::string>().empty();
        if (!value.is_null() && !no_text && value != false && value != 0.0) {
            refuse(fmt::format("the tokenizer's {} is not supported", name), "none", value);
        }
    };
    require_null(json, "normalizer");
    const PairJson cut = json.value("pre_tokenizer", PairJson());
    if (!cut.is_object() || cut.value("type", "") != "ByteLevel" || !cut.value("use_regex", true)) {
        refuse("the tokenizer cuts text in a way that is not supported",
               "the pre_tokenizer ByteLevel with GPT-2's pattern", cut);
    }
    const PairJson& model = json.at("model");
    if (model.value("type", "BPE") != "BPE") {
        refuse("another kind of tokenizer", "BPE", model.at("type"));
    }
    for (const char* name : {"dropout", "unk_token", "continuing_subword_prefix",
                             "end_of_word_suffix", "byte_fallback", "ignore_merges"}) {
        require_null(model, name);
    }
}

class BpeTokenizer final : public Tokenizer {
public:
    BpeTokenizer(const PairJson& json, std::string_view where) {
        check_json(json, where);
        prefix_space_ = json.at("pre_tokenizer").value("add_prefix_space", true);
        const PairJson& model = json.at("model");
        std::unordered_map<std::string, std::int32_t> ids;
        for (const auto& [token, id] : model.at("vocab").items()) {
            ids[token] = checked_id(id, where);
            place(ids[token], bytes_of_token(token).value_or(token));
        }
        read_added(json.value("added_tokens", PairJson::array()), where);
        read_bytes(ids, where);
        read_merges(model.at("merges"), ids, where);
    }

    [[nodiscard]] std::int64_t size() const override {
        return static_cast<std::int64_t>(texts_.size());
    }
    [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
        std::vector<std::int32_t> tokens;
        Known known;
        std::vector<std::size_t> places(added_.size(), 0);
        for (std::size_t begin = 0; begin < text.size();) {
            const auto [at, added] = next_added(text, begin, places);
            encode_plain(text.substr(begin, at - begin), known, tokens);
            if (added != nullptr) {
                tokens.push_back(added->second);
            }
            begin = added == nullptr ? text.size() : at + added->first.size();
        }
        return tokens;
    }
    [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
        std::string text;
        for (const std::int32_t token : tokens) {
            text += texts_.at(static_cast<std::size_t>(token));
        }
        return text;
    }

private:
    using Added = std::pair<std::string, std::int32_t>;
    using Known = std::unordered_map<std::string, std::vector<std::int32_t>>;
    static constexpr std::int32_t kMostTokens = 1 << 24;
    static constexpr std::int32_t kNone = -1;

    static std::int32_t checked_id(const PairJson& id, std::string_view where) {
        require_file(id.is_number_integer() && id >= 0 && id < kMostTokens, where,
                     "unusable number of a token", fmt::format("0 to {}", kMostTokens - 1),
                     id.dump());
        return id.get<std::int32_t>();
    }
    void place(std::int32_t id, std::string text) {
        texts_.resize(std::max(texts_.size(), static_cast<std::size_t>(id) + 1));
        texts_[static_cast<std::size_t>(id)] = std::move(text);
    }
    void read_added(const PairJson& added, std::string_view where) {
        for (const PairJson& one : added) {
            const auto content = one.at("content").get<std::string>();
            for (const char* name : {"lstrip", "rstrip", "single_word"}) {
                require_file(!one.value(name, false) && !content.empty(), where,
                             fmt::format("the added token '{}' is not supported", content),
                             fmt::format("a text without {}", name), "");
            }
            added_.emplace_back(content, checked_id(one.at("id"), where));
            place(added_.back().second, content);
        }
    }
    void read_bytes(const std::unordered_map<std::string, std::int32_t>& ids,
                    std::string_view where) {
        const auto characters = characters_of_bytes();
        for (std::size_t byte = 0; byte < characters.size(); ++byte) {
            std::string token;
            append_utf8(token, characters[byte]);
            const auto found = ids.find(token);
            const bool in_text = byte < 0xF5 && byte != 0xC0 && byte != 0xC1;  // of UTF-8
            require_file(found != ids.end() || !in_text, where,
                         fmt::format("the vocabulary lacks the byte 0x{:02x}", byte),
                         "each byte that text may have", "",
                         "training it with initial_alphabet=ByteLevel.alphabet()");
            bytes_[byte] = found == ids.end() ? kNone : found->second;
        }
    }
    void read_merges(const PairJson& merges,
                     const std::unordered_map<std::string, std::int32_t>& ids,
                     std::string_view where) {
        for (const PairJson& merge : merges) {
            std::string left;
            std::string right;
            if (merge.is_string()) {
                const auto both = merge.get<std::string>();
                left = both.substr(0, both.find(' '));
                right = both.substr(std::min(both.size(), left.size() + 1));
            } else {
                left = merge.at(0).get<std::string>();
                right = merge.at(1).get<std::string>();
            }
            for (const std::string& token : {left, right, left + right}) {
                require_file(ids.contains(token), where, "a merge of tokens that do not exist",
                             "tokens of the vocabulary", fmt::format("'{}'", token));
            }
            const auto rank = static_cast<std::int32_t>(merges_.size());
            merges_.try_emplace(key(ids.at(left), ids.at(right)), rank, ids.at(left + right));
        }
    }
    [[nodiscard]] static std::uint64_t key(std::int32_t left, std::int32_t right) {
        return (static_cast<std::uint64_t>(left) << 32U) | static_cast<std::uint32_t>(right);
    }

    /// The first added token of a text from `begin` on, the longest at its place, and its place.
    /// @param places  per added token: where it was found last, so that the text is searched once;
    /// all 0 at the start
    [[nodiscard]] std::pair<std::size_t, const Added*> next_added(
        std::string_view text, std::size_t begin, std::vector<std::size_t>& places) const {
        std::size_t first = text.size();
        const Added* which = nullptr;
        for (std::size_t i = 0; i < added_.size(); ++i) {
            const Added& added = added_[i];
            std::size_t& at = places[i];
            if (begin == 0 || at < begin) {
                at = text.find(added.first, begin);
            }
            if (at < first ||
                (at == first && which != nullptr && added.first.size() > which->first.size())) {
                first = at;
                which = &added;
            }
        }
        return {first, which};
    }

    void encode_plain(std::string_view text, Known& known,
                      std::vector<std::int32_t>& tokens) const {
        std::string padded;
        if (prefix_space_ && !text.empty() && text.front() != ' ') {
            padded = " " + std::string(text);
            text = padded;
        }
        while (!text.empty()) {
            const std::string_view piece = text.substr(0, piece_length(text));
            const auto [found, added] = known.try_emplace(std::string(piece));
            if (added) {
                found->second = merge(piece);
            }
            tokens.insert(tokens.end(), found->second.begin(), found->second.end());
            text.remove_prefix(piece.size());
        }
    }

    [[nodiscard]] std::vector<std::int32_t> merge(std::string_view piece) const;

    bool prefix_space_ = false;
    std::vector<std::string> texts_;  ///< by token, bytes
    std::vector<Added> added_;
    std::array<std::int32_t, 256> bytes_{};
    std::unordered_map<std::uint64_t, std::pair<std::int32_t, std::int32_t>> merges_;
};

std::vector<std::int32_t> BpeTokenizer::merge(std::string_view piece) const {
    // By place; a token stands at its first byte, the other places have none.
    std::vector<std::int32_t> token(piece.size());
    std::vector<std::size_t> next(piece.size());
    std::vector<std::size_t> before(piece.size() + 1);
    for (std::size_t at = 0; at < piece.size(); ++at) {
        token[at] = bytes_[static_cast<unsigned char>(piece[at])];
        next[at] = at + 1;
        before[at + 1] = at;
    }
    const auto pair_at = [&](std::size_t left) { return key(token[left], token[next[left]]); };
    std::priority_queue<MergeChoice, std::vector<MergeChoice>, std::greater<>> choices;
    const auto offer = [&](std::size_t left) {
        if (next[left] < piece.size()) {
            if (const auto found = merges_.find(pair_at(left)); found != merges_.end()) {
                choices.push({found->second.first, left, found->first});
            }
        }
    };
    for (std::size_t at = 0; at < piece.size(); ++at) {
        offer(at);
    }
    while (!choices.empty()) {
        const MergeChoice best = choices.top();
        choices.pop();
        const std::size_t left = best.left;
        if (token[left] == kNone || next[left] == piece.size() || pair_at(left) != best.pair) {
            continue;
        }
        token[left] = merges_.at(best.pair).second;
        token[next[left]] = kNone;
        next[left] = next[next[left]];
        before[next[left]] = left;
        offer(left);
        if (left > 0) {
            offer(before[left]);
        }
    }
    std::vector<std::int32_t> tokens;
    for (std::size_t at = 0; at < piece.size(); at = next[at]) {
        tokens.push_back(token[at]);
    }
    return tokens;
}

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(std::string_view json, std::string_view where) {
    try {
        return std::make_unique<BpeTokenizer>(PairJson::parse(json), where);
    } catch (const PairJson::exception& error) {
        fail<FileError>({.where = where,
                         .what = "not a tokenizer.json",
                         .expected = "the JSON of a byte-level BPE tokenizer",
                         .got = error.what()});
    }
}

}  // namespace cohort
