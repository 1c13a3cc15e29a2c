#include "data/text/tokenizers.hpp"

#include <string>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

class ByteTokenizer final : public Tokenizer {
public:
    [[nodiscard]] std::int64_t size() const override { return 256; }
    [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
        std::vector<std::int32_t> tokens;
        tokens.reserve(text.size());
        for (const char byte : text) {
            tokens.push_back(static_cast<unsigned char>(byte));
        }
        return tokens;
    }
    [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
        std::string text;
        for (const std::int32_t token : tokens) {
            text += static_cast<char>(static_cast<unsigned char>(token));
        }
        return text;
    }
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const Vocabulary& vocabulary, std::string_view where) {
    switch (vocabulary.kind) {
        case TokenKind::kWords: return make_word_tokenizer(vocabulary.text, where);
        case TokenKind::kBpe: return make_bpe_tokenizer(vocabulary.text, where);
        case TokenKind::kBytes: break;
    }
    return std::make_unique<ByteTokenizer>();
}

}  // namespace cohort
