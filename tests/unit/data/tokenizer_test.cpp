#include "cohort/data/vocabulary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "data/text/unicode.hpp"

namespace cohort {
namespace {

using Tokens = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> words_of(const std::string& text, std::int64_t most = 0) {
    return make_tokenizer(vocabulary_of_words(std::vector{text}, most), "test");
}

/// What the words of a text are, separated by bars.
std::string cut(const std::string& text) {
    const auto words = words_of(text);
    std::string result;
    for (const std::int32_t token : words->encode(text)) {
        const std::string word = words->decode(Tokens{token});
        result += (result.empty() ? "" : "|") + (word == "\n" ? "<eos>" : word);
    }
    return result;
}

/// Random text: letters, marks of several scripts, punctuation, white space.
std::string random_text(std::uint64_t seed, int characters) {
    static const std::vector<std::string> pieces{
        "a",  "b",   "the",     "God's", " ", " ",  "  ",   "\n", "\t", ",",  ".",      "(",
        "]",  "'",   "-",       "7",     "٣", "é",  "Ω",    "中", "文", "…",  "\u00A0", "👍",
        "'s", "'ll", "e\u0301", "<unk>", "<", "12", "\r\n", "_",  "Zz", "\"", "𝔘",      "\u3000"};
    Rng rng(seed, RngPurpose::kTest);
    std::string text;
    for (int i = 0; i < characters; ++i) {
        text += pieces[rng.next_below(static_cast<std::uint32_t>(pieces.size()))];
    }
    return text;
}

TEST(Utf8, EveryCharacterThereAndBack) {
    for (char32_t character = 0; character <= 0x10FFFF; character += 7) {
        if (character >= 0xD800 && character <= 0xDFFF) {
            continue;
        }
        std::string text;
        append_utf8(text, character);
        const std::optional<Character> found = first_character(text + "x");
        ASSERT_TRUE(found);
        ASSERT_EQ(found->value, character);
        ASSERT_EQ(found->bytes, text.size());
        ASSERT_NO_THROW(check_utf8(text, "test"));
    }
}

TEST(Utf8, NamesTheByteThatIsNot) {
    for (const std::string wrong : {"\x80", "\xC0\x80", "\xC3", "\xE2\x82", "\xED\xA0\x80",
                                    "\xF4\x90\x80\x80", "\xFF", "\xE0\x80\x80", "\xC3("}) {
        try {
            check_utf8("good\nsome " + wrong, "a.txt");
            FAIL() << "accepted";
        } catch (const FileError& error) {
            EXPECT_NE(std::string(error.what()).find("at byte 10, in line 2"), std::string::npos)
                << error.what();
        }
    }
}

TEST(Unicode, ClassesOfKnownCharacters) {
    using enum CharacterClass;
    EXPECT_EQ(class_of('a'), kLetter);
    EXPECT_EQ(class_of(U'ß'), kLetter);
    EXPECT_EQ(class_of(U'中'), kLetter);
    EXPECT_EQ(class_of('5'), kNumber);
    EXPECT_EQ(class_of(U'½'), kNumber);
    EXPECT_EQ(class_of(0x301), kMark);
    EXPECT_EQ(class_of(0xA0), kSpace);
    EXPECT_EQ(class_of('\n'), kSpace);
    EXPECT_EQ(class_of('_'), kOther);
    EXPECT_EQ(class_of(0x10FFFF), kOther);
    EXPECT_EQ(class_of(0), kOther);
    for (const char32_t space :
         {0x09U, 0x0DU, 0x85U, 0x1680U, 0x2028U, 0x2029U, 0x202FU, 0x3000U}) {
        EXPECT_EQ(class_of(space), kSpace) << static_cast<std::uint32_t>(space);
    }
    EXPECT_EQ(class_of(0x200B), kOther) << "a space without width is none";
    EXPECT_EQ(class_of(0x110000), kOther);
}

TEST(Words, PunctuationIsCutOffAndLinesEnd) {
    EXPECT_EQ(cut("In the beginning."), "In|the|beginning|.");
    EXPECT_EQ(cut("God's son-in-law, 'tis\n\n"), "God's|son-in-law|,|'|tis|<eos>|<eos>");
    EXPECT_EQ(cut("a--b 1,000 (x)"), "a|-|-|b|1|,|000|(|x|)");
    EXPECT_EQ(cut("naïve\u00A0中文… e\u0301a"), "naïve|中文|…|e\u0301a");
    EXPECT_EQ(cut("end- 'a' <unk>s<eos>"), "end|-|'|a|'|<unk>|s|<eos>");
    EXPECT_EQ(cut(""), "");
    EXPECT_EQ(cut(" \t\r "), "");
}

TEST(Words, TheMostFrequentStay) {
    const auto words = words_of("b b b a a c c d", 4);
    EXPECT_EQ(words->size(), 4);
    EXPECT_EQ(words->encode("b a c d \n"), (Tokens{2, 3, 0, 0, 1})) << "a before c: the same count";
    EXPECT_EQ(words->unknown(), 0);
    EXPECT_EQ(words_of("x y")->size(), 4);
    EXPECT_EQ(words_of("x y", 1)->size(), 2) << "<unk> and <eos> are always there";
    EXPECT_EQ(words_of("")->size(), 2);
}

TEST(Words, ReadAsPeopleWriteThem) {
    const std::string text = "And God said, Let there be light: and (then) there was light.\nYes!";
    const auto words = words_of(text);
    EXPECT_EQ(words->decode(words->encode(text)), text);
    EXPECT_EQ(words->decode({}), "");
}

TEST(Words, WhatIsPrintedHasTheSameTokens) {
    const std::string all = random_text(1, 4000);
    const auto words = words_of(all);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const Tokens tokens = words->encode(random_text(seed, 40));
        EXPECT_EQ(words->encode(words->decode(tokens)), tokens) << words->decode(tokens);
    }
}

TEST(Words, ADamagedVocabularyIsRefused) {
    for (const std::string text :
         {"", "a\nb\n", "<unk>\n<eos>\na\na\n", "<unk>\n<eos>\n\nb\n", "<unk>\n<eos>\n\xFF\n"}) {
        EXPECT_THROW((void)make_tokenizer({TokenKind::kWords, text}, "v"), FileError) << text;
    }
}

TEST(Bytes, ThereAndBack) {
    const auto bytes = make_tokenizer({}, "test");
    EXPECT_EQ(bytes->size(), 256);
    EXPECT_FALSE(bytes->unknown());
    EXPECT_EQ(bytes->encode("é"), (Tokens{0xC3, 0xA9}));
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const std::string text = random_text(seed, 30);
        EXPECT_EQ(bytes->decode(bytes->encode(text)), text);
    }
}

/// A tokenizer.json with every byte, merges, and an added token behind them.
nlohmann::json bpe_json(const std::vector<std::pair<std::string, std::string>>& merges) {
    nlohmann::json vocabulary;
    int next = 0;
    int shifted = 256;
    for (int byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
        std::string token;
        append_utf8(token, static_cast<char32_t>(printable ? byte : shifted++));
        vocabulary[token] = next++;
    }
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [left, right] : merges) {
        vocabulary[left + right] = next++;
        list.push_back(left + " " + right);
    }
    return {{"version", "1.0"},
            {"added_tokens",
             {{{"id", next}, {"content", "<|end|>"}, {"special", true}, {"lstrip", false}}}},
            {"normalizer", nullptr},
            {"pre_tokenizer",
             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
            {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", list}}}};
}

const std::vector<std::pair<std::string, std::string>> kMerges{
    {"l", "o"}, {"lo", "w"}, {"Ġ", "low"}, {"e", "r"}, {"Ã", "©"}, {"a", "a"}, {"aa", "aa"}};

std::unique_ptr<Tokenizer> bpe(const nlohmann::json& json) {
    return make_tokenizer({TokenKind::kBpe, json.dump()}, "tokenizer.json");
}

TEST(BytePairs, MergesInTheOrderOfRanks) {
    const auto tokenizer = bpe(bpe_json(kMerges));
    EXPECT_EQ(tokenizer->size(), 264);
    EXPECT_EQ(tokenizer->encode("low lower"), (Tokens{257, 258, 259}));
    EXPECT_EQ(tokenizer->encode("é"), Tokens{260});
    EXPECT_EQ(tokenizer->encode("aaaaaaa"), (Tokens{262, 261, 'a'}));
    EXPECT_EQ(tokenizer->encode("low<|end|>low"), (Tokens{257, 263, 257}));
    EXPECT_TRUE(tokenizer->encode("").empty());
    EXPECT_EQ(tokenizer->decode(Tokens{257, 258, 263}), "low low<|end|>");
}

TEST(BytePairs, FindAddedTokensWhereverTheyStand) {
    nlohmann::json json = bpe_json(kMerges);
    for (const auto& [id, content] : {std::pair(264, "<|end|>>"), std::pair(265, "<|pad|>")}) {
        json["added_tokens"].push_back(
            {{"id", id}, {"content", content}, {"special", true}, {"lstrip", false}});
    }
    const auto tokenizer = bpe(json);
    EXPECT_EQ(tokenizer->encode("<|end|>low<|end|>>low<|end|><|end|>low"),
              (Tokens{263, 257, 264, 257, 263, 263, 257}))
        << "the longest one counts, and one that never occurs hides none";
    EXPECT_EQ(tokenizer->encode("<|pad|><|pad|>low<|pad|>"), (Tokens{265, 265, 257, 265}));
}

TEST(BytePairs, PiecesAreThoseOfTheirPattern) {
    // Each pair of characters merges, so tokens are the pieces, up to pieces of one letter.
    const auto tokenizer = bpe(bpe_json({{"Ġ", "Ġ"}, {"Ġ", "a"}, {"a", "1"}, {"a", "'"}}));
    const auto pieces = [&](const std::string& text) {
        std::vector<std::string> result;
        for (const std::int32_t token : tokenizer->encode(text)) {
            result.push_back(tokenizer->decode(Tokens{token}));
        }
        return result;
    };
    using Pieces = std::vector<std::string>;
    EXPECT_EQ(pieces("  a"), (Pieces{" ", " a"})) << "the last space belongs to the word";
    EXPECT_EQ(pieces("a  "), (Pieces{"a", "  "}));
    EXPECT_EQ(pieces("a1"), (Pieces{"a", "1"})) << "letters and numbers never merge";
    EXPECT_EQ(pieces("a's"), (Pieces{"a", "'", "s"}));
}

TEST(BytePairs, AnyTextComesBack) {
    for (const bool prefix : {false, true}) {
        nlohmann::json json = bpe_json(kMerges);
        json["pre_tokenizer"]["add_prefix_space"] = prefix;
        const auto tokenizer = bpe(json);
        for (std::uint64_t seed = 0; seed < 100; ++seed) {
            const std::string text = random_text(seed, 60);
            const bool added = prefix && text.front() != ' ';
            EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), (added ? " " : "") + text);
        }
    }
}

TEST(BytePairs, LongRunsTakeNoSquareOfTime) {
    const auto tokenizer = bpe(bpe_json(kMerges));
    EXPECT_EQ(tokenizer->encode(std::string(1 << 20, 'a')).size(), std::size_t{1} << 18);
}

TEST(BytePairs, WhatIsNotImplementedIsRefused) {
    const auto refused = [](auto&& change, const std::string& words) {
        nlohmann::json json = bpe_json(kMerges);
        change(json);
        try {
            (void)bpe(json);
            ADD_FAILURE() << "accepted: " << words;
        } catch (const FileError& error) {
            EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
        }
    };
    using Json = nlohmann::json;
    refused([](Json& json) { json["normalizer"] = {{"type", "NFC"}}; }, "normalizer");
    refused([](Json& json) { json["pre_tokenizer"]["type"] = "Whitespace"; }, "cuts text");
    refused([](Json& json) { json["pre_tokenizer"]["use_regex"] = false; }, "cuts text");
    refused([](Json& json) { json.erase("pre_tokenizer"); }, "cuts text");
    refused([](Json& json) { json["model"]["type"] = "Unigram"; }, "kind of tokenizer");
    refused([](Json& json) { json["model"]["dropout"] = 0.1; }, "dropout");
    refused([](Json& json) { json["model"]["byte_fallback"] = true; }, "byte_fallback");
    refused([](Json& json) { json["model"]["vocab"].erase("A"); }, "lacks the byte 0x41");
    refused([](Json& json) { json["model"]["vocab"]["A"] = -1; }, "number of a token");
    refused([](Json& json) { json["model"]["merges"].push_back("x y"); }, "do not exist");
    refused([](Json& json) { json["added_tokens"][0]["lstrip"] = true; }, "added token");
    refused([](Json& json) { json.erase("model"); }, "not a tokenizer.json");
    EXPECT_THROW((void)make_tokenizer({TokenKind::kBpe, "{"}, "t"), FileError);
    EXPECT_THROW((void)make_tokenizer({TokenKind::kBpe, "[1]"}, "t"), FileError);
}

}  // namespace
}  // namespace cohort
