// Text: the tokens of all files of a group, one after the other, cut into windows of T+1 tokens
// that share their ends: a window's last token is the next one's first, so that each token but the
// first is a label once. What is left at the end, fewer than T labels, is left out.
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/units.hpp"

#include "data/file/file_io.hpp"
#include "data/file/text_file.hpp"
#include "data/import/import_formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace cohort {

namespace {

using Tokens = std::vector<std::int32_t>;

/// The texts of the files of a group.
std::vector<std::string> texts_of(const std::vector<ImportFile>& files, DatasetGroup group) {
    std::vector<std::string> texts;
    for (const ImportFile& file : files) {
        if (file.group != group) {
            continue;
        }
        const FileWatch watch(file.path);
        std::string text = read_text_file(file.path);
        watch.check(file.path, "the text");
        if (text.starts_with("\xEF\xBB\xBF")) {
            text.erase(0, 3);
        }
        require_file(!text.empty(), file.path, "the text is empty", "some text", "0 bytes");
        check_utf8(text, file.path);
        texts.push_back(std::move(text));
    }
    return texts;
}

/// Where the end of a text begins that is held out: after the last line, else the last word, that
/// ends shortly before, else between two characters.
std::size_t place_of_cut(std::string_view text, std::size_t held) {
    constexpr std::size_t kShortly = 4096;
    std::size_t end = text.size() - held;
    const std::size_t begin = end - std::min(end, kShortly);
    for (const std::string_view marks : {"\n", " \t"}) {
        const std::size_t found = text.substr(begin, end - begin).find_last_of(marks);
        if (found != std::string_view::npos) {
            return begin + found + 1;
        }
    }
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
        ++end;
    }
    return end;
}

/// Moves the end of the train texts to the test texts, at most one of them in parts.
void hold_out(std::vector<std::string>& train, std::vector<std::string>& test, double fraction) {
    std::size_t all = 0;
    for (const std::string& text : train) {
        all += text.size();
    }
    auto held = static_cast<std::size_t>(static_cast<double>(all) * fraction);
    while (train.size() > 1 && held >= train.back().size()) {
        held -= train.back().size();
        test.insert(test.begin(), std::move(train.back()));
        train.pop_back();
    }
    if (held > 0 || test.empty()) {
        std::string& last = train.back();
        const std::size_t cut = place_of_cut(last, held);
        test.insert(test.begin(), last.substr(cut));
        last.resize(cut);
    }
}

Vocabulary chosen_vocabulary(const ImportOptions& options, const std::vector<std::string>& texts) {
    const auto found = std::ranges::find(kWords<TokenKind>, options.tokens);
    const auto kind = found == kWords<TokenKind>.end()
                          ? TokenKind::kBpe
                          : static_cast<TokenKind>(found - kWords<TokenKind>.begin());
    if (kind != TokenKind::kWords && options.vocabulary != 0) {
        fail<UsageError>({.where = "--vocabulary",
                          .what = "the vocabulary is that of the tokens",
                          .expected = "a limit with --tokens words only",
                          .got = fmt::format("--tokens {}", options.tokens)});
    }
    switch (kind) {
        case TokenKind::kWords: return vocabulary_of_words(texts, options.vocabulary);
        case TokenKind::kBytes: return {};
        case TokenKind::kBpe: return {.kind = kind, .text = read_text_file(options.tokens)};
    }
    return {};
}

Tokens encode_all(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
    Tokens all;
    for (const std::string& text : texts) {
        const Tokens tokens = tokenizer.encode(text);
        all.insert(all.end(), tokens.begin(), tokens.end());
    }
    return all;
}

/// Windows in the type of the file.
class WindowWriter {
public:
    WindowWriter(DatasetWriter& writer, SampleType type, std::int64_t context)
        : writer_(writer), type_(type), step_(static_cast<std::size_t>(context)) {}

    void write(DatasetGroup group, std::span<const std::int32_t> tokens, std::string_view where) {
        const std::size_t windows = tokens.empty() ? 0 : (tokens.size() - 1) / step_;
        require_file(windows > 0, where, "the text is shorter than a window",
                     fmt::format("{} tokens or more", step_ + 1), std::to_string(tokens.size()),
                     "a smaller --context, a larger --test-fraction, or more text");
        std::vector<std::byte> stored;
        for (std::size_t window = 0; window < windows; ++window) {
            const auto part = tokens.subspan(window * step_, step_ + 1);
            type_ == SampleType::kU16 ? add<std::uint16_t>(part, stored)
                                      : add<std::int32_t>(part, stored);
            if (window + 1 == windows || stored.size() >= kBlockBytes) {
                writer_.append(group, stored, {});
                stored.clear();
            }
        }
    }

private:
    static constexpr std::size_t kBlockBytes = std::size_t{1} << 20U;

    template <class Stored>
    static void add(std::span<const std::int32_t> tokens, std::vector<std::byte>& stored) {
        for (const std::int32_t token : tokens) {
            const auto value = static_cast<Stored>(token);
            const auto bytes = std::as_bytes(std::span(&value, 1));
            stored.insert(stored.end(), bytes.begin(), bytes.end());
        }
    }

    DatasetWriter& writer_;
    SampleType type_;
    std::size_t step_;
};

std::string share_of_unknown(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens) {
    const auto unknown = std::ranges::count(tokens, *tokenizer.unknown());
    return fmt::format("{:.2f} %",
                       100.0 * static_cast<double>(unknown) / static_cast<double>(tokens.size()));
}

}  // namespace

std::string import_text(const std::vector<ImportFile>& files, const ImportOptions& options,
                        const OutputFile& output, const std::string& source, Hdf5Thread& thread) {
    std::vector<std::string> train_texts = texts_of(files, DatasetGroup::kTrain);
    std::vector<std::string> test_texts = texts_of(files, DatasetGroup::kTest);
    if (test_texts.empty()) {
        hold_out(train_texts, test_texts, options.test_fraction);
    }
    const auto vocabulary =
        std::make_shared<const Vocabulary>(chosen_vocabulary(options, train_texts));
    const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(
        *vocabulary, vocabulary->kind == TokenKind::kBpe ? options.tokens : output.path);
    const Tokens train = encode_all(*tokenizer, train_texts);
    const Tokens test = encode_all(*tokenizer, test_texts);
    constexpr std::int64_t kMost16Bit = 65536;
    DatasetSpec spec{.sample_shape = {options.context},
                     .type = tokenizer->size() <= kMost16Bit ? SampleType::kU16 : SampleType::kI32,
                     .classes = tokenizer->size(),
                     .vocabulary = vocabulary,
                     .source = source,
                     .chunk_samples = options.chunk_samples,
                     .compress_level = options.compress_level};
    DatasetWriter writer(output, spec, thread);
    WindowWriter windows(writer, spec.type, options.context);
    windows.write(DatasetGroup::kTrain, train, "train text of " + source);
    windows.write(DatasetGroup::kTest, test, "test text of " + source);
    writer.commit();
    const std::string known =
        tokenizer->unknown()
            ? fmt::format("; of the train text {} are <unk>, of the test text {}",
                          share_of_unknown(*tokenizer, train), share_of_unknown(*tokenizer, test))
            : "";
    return fmt::format("{} tokens to train, {} to test, a vocabulary of {}{}",
                       format_count(train.size()), format_count(test.size()),
                       format_count(static_cast<std::uint64_t>(tokenizer->size())), known);
}

}  // namespace cohort
