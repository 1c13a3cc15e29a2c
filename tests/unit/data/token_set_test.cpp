// Sets of token windows: written, read, damaged, loaded, imported from text.
#include <gtest/gtest.h>

#include <cstring>

#include "cohort/data/loader.hpp"
#include "support/data/import_test.hpp"

namespace cohort {
namespace {

/// Sample i of 5 tokens: i, i + 1, ...
template <class Stored>
std::vector<std::byte> windows(int first, int count) {
    std::vector<Stored> tokens;
    for (int sample = first; sample < first + count; ++sample) {
        for (int position = 0; position < 5; ++position) {
            tokens.push_back(static_cast<Stored>(sample + position));
        }
    }
    const auto bytes = std::as_bytes(std::span(tokens));
    return {bytes.begin(), bytes.end()};
}

class TokenSetTest : public ImportTest {
protected:
    DatasetSpec spec(SampleType type = SampleType::kU16) {
        return {.sample_shape = {4},
                .type = type,
                .classes = 60,
                .vocabulary = std::make_shared<const Vocabulary>(
                    Vocabulary{TokenKind::kWords, "<unk>\n<eos>\nword\n"}),
                .source = "made up",
                .chunk_samples = 8};
    }
    void write_set(const std::string& path, SampleType type = SampleType::kU16) {
        DatasetWriter writer(path, spec(type), thread());
        const auto bytes = [&](int first, int count) {
            return type == SampleType::kU16 ? windows<std::uint16_t>(first, count)
                                            : windows<std::int32_t>(first, count);
        };
        writer.append(DatasetGroup::kTrain, bytes(0, 3), {});
        writer.append(DatasetGroup::kTrain, bytes(3, 50), {});
        writer.append(DatasetGroup::kTest, bytes(20, 7), {});
        EXPECT_EQ(writer.samples(DatasetGroup::kTrain), 53);
        writer.commit();
    }
    std::string error_of(const std::string& path) {
        try {
            const auto set = open_dataset(path, "train", thread());
            for (std::int64_t chunk = 0; chunk < set->info().chunks(); ++chunk) {
                (void)set->read_chunk(chunk);
            }
        } catch (const FileError& error) {
            return error.what();
        }
        return "no FileError";
    }
};

TEST_F(TokenSetTest, WindowsAreStoredOnceAndLoadedAsInputsAndLabels) {
    for (const SampleType type : {SampleType::kU16, SampleType::kI32}) {
        write_set(output(), type);
        const std::shared_ptr<SampleSource> set = open_dataset(output(), "train", thread());
        const SampleSetInfo& info = set->info();
        EXPECT_TRUE(info.tokens());
        EXPECT_EQ(info.sample_shape, std::vector<std::int64_t>{4});
        EXPECT_EQ(info.positions(), 4);
        EXPECT_EQ(info.samples, 53);
        EXPECT_EQ(info.classes, 60);
        EXPECT_EQ(info.sample_bytes(), 5 * value_bytes(type));
        EXPECT_TRUE(info.mean.empty());
        ASSERT_NE(info.vocabulary, nullptr);
        EXPECT_EQ(info.vocabulary->kind, TokenKind::kWords);
        EXPECT_EQ(info.vocabulary->text, "<unk>\n<eos>\nword\n");
        Loader loader(set, {});
        loader.submit({.id = 1, .samples = {52, 0, 17}});
        const std::optional<LoadedBatch> batch = loader.next();
        ASSERT_TRUE(batch);
        EXPECT_TRUE(batch->samples().empty());
        const std::vector<std::int32_t> tokens(batch->tokens().begin(), batch->tokens().end());
        const std::vector<std::int32_t> labels(batch->labels().begin(), batch->labels().end());
        EXPECT_EQ(tokens, (std::vector<std::int32_t>{52, 53, 54, 55, 0, 1, 2, 3, 17, 18, 19, 20}));
        EXPECT_EQ(labels, (std::vector<std::int32_t>{53, 54, 55, 56, 1, 2, 3, 4, 18, 19, 20, 21}));
    }
}

TEST_F(TokenSetTest, VerifyComparesSamplesAndVocabulary) {
    DatasetSpec fitting = spec();
    fitting.classes = 3;
    DatasetWriter writer(output(), fitting, thread());
    const std::vector<std::byte> zeros(10);
    writer.append(DatasetGroup::kTrain, zeros, {});
    writer.append(DatasetGroup::kTest, zeros, {});
    writer.commit();
    const DatasetCheck check = verify_dataset(output(), thread());
    EXPECT_TRUE(check.checksum_recorded);
    EXPECT_EQ(check.checksum.find("labels"), std::string::npos);
    EXPECT_NE(check.checksum.find(" vocabulary:"), std::string::npos);
    Bytes bytes = read(output());
    const std::size_t at = bytes.find("word\n");
    ASSERT_NE(at, Bytes::npos);
    bytes[at] = 'l';
    write(output(), bytes);
    EXPECT_NE(error_of(output()).find("the vocabulary is damaged"), std::string::npos);
}

TEST_F(TokenSetTest, AVocabularyOfAnotherSizeIsFoundByVerify) {
    write_set(output());  // three words, 60 tokens
    EXPECT_THROW((void)verify_dataset(output(), thread()), FileError);
}

TEST_F(TokenSetTest, ATokenBeyondTheVocabularyIsNamed) {
    DatasetWriter writer(output(), spec(), thread());
    std::vector<std::byte> bytes = windows<std::uint16_t>(0, 2);
    bytes[2 * 7] = static_cast<std::byte>(60);
    try {
        writer.append(DatasetGroup::kTrain, bytes, {});
        FAIL() << "accepted";
    } catch (const FileError& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("sample 1 holds a token beyond the vocabulary"), std::string::npos);
        EXPECT_NE(text.find("expected 0 to 59, got 60 at [2]"), std::string::npos) << text;
    }
}

TEST_F(TokenSetTest, EveryChangedTokenIsFound) {
    write_set(output());
    const Bytes good = read(output());
    const Bytes window = [&] {
        const auto raw = windows<std::uint16_t>(30, 1);
        return Bytes(reinterpret_cast<const char*>(raw.data()), raw.size());
    }();
    const std::size_t at = good.find(window);
    ASSERT_NE(at, Bytes::npos);
    for (std::size_t byte = 0; byte < window.size(); ++byte) {
        Bytes bad = good;
        bad[at + byte] = static_cast<char>(bad[at + byte] ^ 1);
        write(output("bad.h5"), bad);
        EXPECT_NE(error_of(output("bad.h5")).find("are damaged"), std::string::npos);
    }
}

TEST_F(TokenSetTest, UnusableSpecsAndSamplesAreRefused) {
    DatasetSpec bad = spec();
    bad.classes = 0;
    EXPECT_THROW(DatasetWriter(output(), bad, thread()), UsageError);
    bad = spec();
    bad.sample_shape = {1, 2, 2};
    EXPECT_THROW(DatasetWriter(output(), bad, thread()), UsageError);
    DatasetWriter writer(output(), spec(), thread());
    const std::vector<std::byte> bytes(10);
    const std::vector<std::int32_t> labels{1};
    EXPECT_THROW(writer.append(DatasetGroup::kTrain, bytes, labels), ShapeError);
    EXPECT_THROW(writer.append(DatasetGroup::kTrain, std::span(bytes).first(8), {}), ShapeError);
}

TEST_F(TokenSetTest, AugmentationIsRefused) {
    write_set(output());
    const std::shared_ptr<SampleSource> set = open_dataset(output(), "train", thread());
    LoaderOptions options;
    options.augment.flip = true;
    EXPECT_THROW(Loader(set, options), UsageError);
}

class TextImportTest : public TokenSetTest {
protected:
    ImportOptions text_options(const std::vector<std::string>& names, std::int64_t context = 3) {
        ImportOptions options = this->options(names);
        options.format = ImportFormat::kText;
        options.context = context;
        return options;
    }
    /// All stored tokens of a group, window by window.
    std::vector<std::vector<std::int32_t>> stored(const std::string& group) {
        const auto set = open_dataset(output(), group, thread());
        const SampleSetInfo& info = set->info();
        std::vector<std::vector<std::int32_t>> result;
        for (std::int64_t index = 0; index < info.chunks(); ++index) {
            const RawChunk chunk = set->read_chunk(index);
            for (std::int64_t i = 0; i < chunk.samples; ++i) {
                std::vector<std::int32_t> inputs(static_cast<std::size_t>(info.positions()));
                std::vector<std::int32_t> labels(inputs.size());
                split_window(chunk.data.data() + static_cast<std::size_t>(i) * info.sample_bytes(),
                             info.type, info.positions(), inputs.data(), labels.data());
                inputs.push_back(labels.back());
                result.push_back(inputs);
            }
        }
        return result;
    }
};

TEST_F(TextImportTest, EachTokenButTheFirstIsALabelOnce) {
    std::string text;
    for (int i = 0; i < 100; ++i) {
        text += static_cast<char>('A' + i % 26);
    }
    write(file("a.txt"), text);
    write(file("a.test.txt"), "abcdefgh");
    for (const std::int64_t context : {1, 2, 3, 7}) {
        ImportOptions options = text_options({"a.txt", "a.test.txt"}, context);
        options.tokens = "bytes";
        const ImportReport report = import(options);
        EXPECT_EQ(report.train.samples, 99 / context);
        EXPECT_EQ(report.train.classes, 256);
        EXPECT_EQ(report.test.samples, 7 / context);
        std::size_t at = 0;
        for (const auto& window : stored("train")) {
            for (std::size_t i = 0; i < window.size(); ++i) {
                EXPECT_EQ(window[i], text[at + i]);
            }
            at += static_cast<std::size_t>(context);
        }
    }
}

TEST_F(TextImportTest, TheEndIsHeldOut) {
    write(file("a.txt"), "a b c d e f g h i j k l m n o p q r s t");
    ImportOptions options = text_options({"a.txt"}, 1);
    options.test_fraction = 0.25;
    options.tokens = "bytes";
    const ImportReport report = import(options);
    EXPECT_EQ(report.train.samples, 29);
    EXPECT_EQ(report.test.samples, 8);
    EXPECT_EQ(stored("test").front(), (std::vector<std::int32_t>{'p', ' '}));
    EXPECT_NE(report.note.find("30 tokens to train, 9 to test"), std::string::npos) << report.note;
}

TEST_F(TextImportTest, TheHeldOutEndBeginsWithALineAndTeachesNoWords) {
    write(file("a.txt"), "a b a b\na b a b\na b c d\n");
    ImportOptions options = text_options({"a.txt"}, 1);
    options.test_fraction = 0.34;
    const ImportReport report = import(options);
    EXPECT_EQ(report.train.classes, 4) << "c and d are only in the test text";
    EXPECT_EQ(stored("test").front(), (std::vector<std::int32_t>{2, 3}));
    EXPECT_NE(report.note.find("10 tokens to train, 5 to test"), std::string::npos) << report.note;
    write(file("a.txt"), "ééééééééé");  // neither lines nor words
    options.tokens = "bytes";
    for (const double fraction : {0.25, 0.3, 0.5}) {
        options.test_fraction = fraction;
        import(options);
        EXPECT_EQ(stored("test").front(), (std::vector<std::int32_t>{0xC3, 0xA9}));
    }
}

TEST_F(TextImportTest, FilesStayApartWhenTheirEndIsHeldOut) {
    write(file("a.txt"), "a b");  // without an end of line
    write(file("b.txt"), "c d c d");
    write(file("c.txt"), "a c a c");
    ImportOptions options = text_options({"a.txt", "b.txt", "c.txt"}, 1);
    options.test_fraction = 0.42;  // of 17 bytes: the last file
    const ImportReport report = import(options);
    EXPECT_EQ(report.train.classes, 6) << "<unk>, <eos>, a, b, c, d, and no word \"bc\"";
    EXPECT_NE(report.note.find("6 tokens to train, 4 to test"), std::string::npos) << report.note;
}

TEST_F(TextImportTest, WordsOfTheTestTextAreNotLearned) {
    write(file("a.train.txt"), "one two one two one two\n");
    write(file("a.valid.txt"), "one three one three\n");
    ImportOptions options = text_options({});
    const ImportReport report = import(options);
    EXPECT_EQ(report.train.classes, 4);
    EXPECT_EQ(stored("test"), (std::vector<std::vector<std::int32_t>>{{2, 0, 2, 0}}));
    EXPECT_NE(report.note.find("of the test text 40.00 %"), std::string::npos) << report.note;
}

TEST_F(TextImportTest, NamesWhatIsWrong) {
    const auto expect = [&](const ImportOptions& options, const std::string& words) {
        const std::string text = error(options);
        EXPECT_NE(text.find(words), std::string::npos) << text;
    };
    write(file("empty.txt"), "");
    write(file("short.txt"), "a b c");
    write(file("bad.txt"), "good \xFF bad");
    write(file("mark.txt"), "\xEF\xBB\xBF");
    write(file("good.txt"), "a b c d e f g h");
    ImportOptions options = text_options({"empty.txt"});
    options.test_fraction = 0.5;
    expect(options, "the text is empty");
    options.inputs = {file("mark.txt")};
    expect(options, "the text is empty");
    options.inputs = {file("bad.txt")};
    expect(options, "byte 0xff at byte 5, in line 1");
    options.inputs = {file("short.txt")};
    expect(options, "shorter than a window");
    options.inputs = {file("good.txt")};
    options.tokens = file("no.json");
    expect(options, "no.json");
    options.tokens = file("good.txt");
    expect(options, "not a tokenizer.json");
    options.tokens = "bytes";
    options.vocabulary = 10;
    EXPECT_THROW(import(options), UsageError);
    options = text_options({"good.txt"});
    options.classes = 3;
    EXPECT_THROW(import(options), UsageError);
    options = this->options({"good.txt"});
    options.context = 3;
    EXPECT_THROW(import(options), UsageError) << "an option of text with another format";
}

}  // namespace
}  // namespace cohort
