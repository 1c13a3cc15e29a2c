#include "support/data/import_test.hpp"

#include <cstdlib>

namespace cohort {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ImportTest, IdxFolderPlainAndPacked) {
    for (const bool packed : {false, true}) {
        write_mnist_like(packed);
        write(file("README"), "not data");
        const ImportReport report = import(options());
        EXPECT_EQ(report.format, ImportFormat::kIdx);
        EXPECT_EQ(report.files.size(), 4U) << "a packed twin is not read again";
        EXPECT_THAT(report.train.sample_shape, ElementsAre(1, 2, 3));
        EXPECT_EQ(report.train.samples, 7);
        EXPECT_EQ(report.test.samples, 2);
        EXPECT_EQ(report.train.classes, 8);
        EXPECT_FLOAT_EQ(report.train.mean.at(0), 20.5F);
        EXPECT_THAT(report.train.source, HasSubstr("idx: t10k-images-idx3-ubyte"));
        EXPECT_THAT(chunk("train").labels, ElementsAre(1, 2, 3, 4, 5, 6, 7));
        EXPECT_EQ(chunk("test").data[11], std::byte{11});
        EXPECT_TRUE(verify_dataset(output(), thread()).checksum_recorded);
    }
}

TEST_F(ImportTest, IdxFloatIsBigEndian) {
    write(file("train-x"), idx(0x0D, {1, 2}, Bytes("\x3F\x80\0\0\xC0\0\0\0", 8)));
    write(file("train-y"), idx(0x0C, {1}, Bytes("\0\0\1\2", 4)));
    ImportOptions how = options({"train-x", "train-y"});
    write(file("test-x"), idx(0x0D, {1, 2}, Bytes(8, '\0')));
    write(file("test-y"), idx(0x0B, {1}, Bytes("\0\3", 2)));
    how.inputs.push_back(file("test-x"));
    how.inputs.push_back(file("test-y"));
    how.classes = 300;  // of two samples: nobody would guess
    import(how);
    EXPECT_THAT(floats(chunk("train")), ElementsAre(1.0F, -2.0F));
    EXPECT_THAT(chunk("train").labels, ElementsAre(258));
    EXPECT_THAT(chunk("test").labels, ElementsAre(3));
}

TEST_F(ImportTest, IdxErrorsNameFileAndReason) {
    write_mnist_like(false);
    const std::string images = file("train-images-idx3-ubyte");
    write(images, idx(8, {7, 2, 3}, counting(41)));
    EXPECT_THAT(error(options()), AllOf(HasSubstr(images), HasSubstr("byte 57"),
                                        HasSubstr("expected 42 bytes, got 41")));
    write(images, idx(8, {7, 2, 3}, counting(43)));
    EXPECT_THAT(error(options()), AllOf(HasSubstr(images), HasSubstr("longer")));
    write(images, idx(8, {6, 2, 3}, counting(36)));
    EXPECT_THAT(error(options()), AllOf(HasSubstr(images), HasSubstr("expected 7 samples, got 6")));
    write(images, idx(0x0E, {7, 2, 3}, counting(336)));
    EXPECT_THAT(error(options()), AllOf(HasSubstr(images), HasSubstr("got 0e")));
    write(images, idx(8, {7, 3, 3}, counting(63)));
    EXPECT_THAT(error(options()), AllOf(HasSubstr("differ"), HasSubstr("[1,3,3]")));
    fs::remove(images);
    EXPECT_THAT(error(options()),
                AllOf(HasSubstr("train-images-idx3-ubyte is missing"), HasSubstr("train-labels")));
    write_mnist_like(false);
    ImportOptions how = options();
    how.classes = 5;
    EXPECT_THAT(error(how), AllOf(HasSubstr("[" + file("train-labels-idx1-ubyte") + "]"),
                                  HasSubstr("sample 4"), HasSubstr("expected 0 to 4, got 5")));
}

TEST_F(ImportTest, DamagedGzipIsAnError) {
    write_mnist_like(true);
    const std::string images = file("train-images-idx3-ubyte.gz");
    const Bytes whole = read(images);
    for (const std::size_t length : {whole.size() - 1, whole.size() - 9, whole.size() / 2}) {
        write(images, whole.substr(0, length));
        EXPECT_THAT(error(options()), HasSubstr(images)) << length;
    }
    Bytes flipped = whole;
    flipped[flipped.size() - 12] ^= 4;
    write(images, flipped);
    EXPECT_THAT(error(options()), AllOf(HasSubstr(images), HasSubstr("gzip")));
}

TEST_F(ImportTest, Cifar10And100) {
    write(file("data_batch_1.bin"), "\3" + counting(3072) + "\4" + counting(3072));
    write(file("data_batch_2.bin"), "\5" + counting(3072));
    for (const char* name : {"data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"}) {
        write(file(name), "\7" + counting(3072));
    }
    write(file("test_batch.bin"), "\6" + counting(3072));
    write(file("batches.meta.txt"), "airplane\n");
    ImportReport report = import(options());
    EXPECT_EQ(report.format, ImportFormat::kCifar10);
    EXPECT_THAT(report.train.sample_shape, ElementsAre(3, 32, 32));
    EXPECT_EQ(report.train.classes, 10);
    EXPECT_THAT(chunk("train").labels, ElementsAre(3, 4, 5, 7, 7, 7));
    EXPECT_EQ(chunk("train").data[3072 + 5], std::byte{5});
    EXPECT_THAT(chunk("test").labels, ElementsAre(6));

    write(file("train.bin"), "\1\x31" + counting(3072));
    write(file("test.bin"), "\1\x32" + counting(3072));
    report = import(options({"train.bin", "test.bin"}));
    EXPECT_EQ(report.format, ImportFormat::kCifar100);
    EXPECT_EQ(report.train.classes, 100);
    EXPECT_THAT(chunk("train").labels, ElementsAre(0x31));
    EXPECT_THROW(import(options()), UsageError) << "two formats in one folder";

    fs::remove(output());
    write(file("train.bin"), "\1\x31" + counting(3000));
    ImportOptions how = options({"train.bin", "test.bin"});
    how.format = ImportFormat::kCifar100;
    EXPECT_THAT(error(how), AllOf(HasSubstr("train.bin"), HasSubstr("multiple of 3074")));
    write(file("train.bin"), "\1\x64" + counting(3072));
    EXPECT_THAT(error(how), AllOf(HasSubstr("train.bin"), HasSubstr("0 to 99, got 100")));
}

TEST_F(ImportTest, CsvWithAndWithoutHeader) {
    write(file("train.csv"), "\xEF\xBB\xBFlabel, a ,\"b\"\r\n1, 0.5 ,-2\r\n0,\"1e3\",4\r\n\r\n");
    write(file("test.csv"), "2,5,6\n0,7,8");
    ImportReport report = import(options());
    EXPECT_EQ(report.format, ImportFormat::kCsv);
    EXPECT_THAT(report.train.sample_shape, ElementsAre(2));
    EXPECT_EQ(report.train.classes, 3);
    EXPECT_THAT(floats(chunk("train")), ElementsAre(0.5F, -2.0F, 1000.0F, 4.0F));
    EXPECT_THAT(chunk("train").labels, ElementsAre(1, 0));
    EXPECT_THAT(floats(chunk("test")), ElementsAre(5.0F, 6.0F, 7.0F, 8.0F));

    write(file("test.csv"), "a,b,label\n5,6,1\n");
    ImportOptions how = options();
    how.label_column = "label";
    how.shape = {1, 1, 2};
    report = import(how);
    EXPECT_THAT(report.test.sample_shape, ElementsAre(1, 1, 2));
    EXPECT_THAT(floats(chunk("test")), ElementsAre(5.0F, 6.0F));
}

TEST_F(ImportTest, CsvManyLinesCrossBuffers) {
    Bytes text;
    for (int i = 0; i < 50'000; ++i) {
        text += std::to_string(i % 3) + "," + std::to_string(i) + ",0.25\n";
    }
    write(file("train.csv"), text);
    write(file("test.csv"), "0,1,2\n");
    EXPECT_EQ(import(options()).train.samples, 50'000);
    const auto source = open_dataset(output(), "train", thread());
    const RawChunk last = source->read_chunk(source->info().chunks() - 1);
    EXPECT_EQ(floats(last).at(static_cast<std::size_t>(last.samples - 1) * 2), 49'999.0F);
}

TEST_F(ImportTest, CsvErrorsNameTheLine) {
    write(file("test.csv"), "0,1,2\n");
    const auto with = [&](const Bytes& text) {
        write(file("train.csv"), text);
        return error(options());
    };
    EXPECT_THAT(with("l,a,b\n0,1,2\n1,x,2\n"),
                AllOf(HasSubstr("train.csv:3]"), HasSubstr("column 1"), HasSubstr("got 'x'")));
    EXPECT_THAT(with("0,1,2\n0,1\n"),
                AllOf(HasSubstr("train.csv:2]"), HasSubstr("expected 3, got 2")));
    EXPECT_THAT(with("0,1,2\n0,,2\n"), HasSubstr("got ''"));
    EXPECT_THAT(with("0,1,a\n"), AllOf(HasSubstr("train.csv:1]"), HasSubstr("got 'a'")));
    EXPECT_THAT(with("0,1,nan\n"), HasSubstr("a finite number"));
    EXPECT_THAT(with("1.5,1,2\n"), AllOf(HasSubstr("label"), HasSubstr("'1.5'")));
    EXPECT_THAT(with("-1,1,2\n"), HasSubstr("'-1'"));
    EXPECT_THAT(with(""), HasSubstr("no samples"));
    EXPECT_THAT(with("l,a,b\n"), HasSubstr("no samples"));
    EXPECT_THAT(with("0\n"), HasSubstr("too few columns"));
    write(file("train.csv"), "l,a,b\n0,1,2\n");
    ImportOptions how = options({"train.csv", "test.csv"});
    how.label_column = "class";
    EXPECT_THAT(error(how), AllOf(HasSubstr("'class'"), HasSubstr("one of: l, a, b")));
    how.label_column = "3";
    EXPECT_THAT(error(how), AllOf(HasSubstr("'3'"), HasSubstr("0 to 2")));
}

TEST_F(ImportTest, RefusesIdsAsLabels) {
    Bytes rows;
    for (int i = 0; i < 400; ++i) {
        rows += std::to_string(i) + "," + std::to_string(i % 150) + ",1\n";
    }
    write(file("train.csv"), rows);
    write(file("test.csv"), "0,0,1\n");
    EXPECT_THAT(error(options()),
                AllOf(HasSubstr("train.csv] the labels seem to be ids: they make 400 classes of "
                                "401 samples; expected labels from 0 to at most 199, got 399 for "
                                "sample 399"),
                      HasSubstr("--label-column"), HasSubstr("--classes")));
    ImportOptions how = options();
    how.label_column = "1";
    EXPECT_EQ(import(how).train.classes, 150);
    how = options();
    how.classes = 400;
    EXPECT_EQ(import(how).train.classes, 400);
}

TEST_F(ImportTest, TestFractionSplitsOnceForAll) {
    Bytes text;
    for (int i = 0; i < 2000; ++i) {
        text += std::to_string(i % 10) + "," + std::to_string(i) + "\n";
    }
    write(file("all.csv"), text);
    ImportOptions how = options({"all.csv"});
    EXPECT_THROW(import(how), UsageError) << "no test data, no fraction";
    how.test_fraction = 0.25;
    const ImportReport report = import(how);
    EXPECT_EQ(report.train.samples, 1500);
    EXPECT_EQ(report.test.samples, 500);
    const std::vector<float> first = floats(chunk("test"));
    std::vector<int> classes(10);
    for (const std::int32_t label : chunk("test").labels) {
        ++classes.at(static_cast<std::size_t>(label));
    }
    EXPECT_THAT(classes, ::testing::Each(::testing::Gt(5))) << "in the first chunk";
    import(how);
    EXPECT_EQ(floats(chunk("test")), first) << "the same seed, the same split";
    how.seed = 1;
    import(how);
    EXPECT_NE(floats(chunk("test")), first);
    write(file("test.csv"), "0,1\n");
    how.inputs.push_back(file("test.csv"));
    EXPECT_THROW(import(how), UsageError) << "a fraction and test files";
}

TEST_F(ImportTest, NamesUnusableInputs) {
    EXPECT_THAT(error(options()), AllOf(HasSubstr(folder()), HasSubstr("nothing to import")));
    EXPECT_THAT(error(options({"absent.csv"})), HasSubstr("no such file"));
    write(file("a.txt"), "hello");
    EXPECT_THAT(error(options({"a.txt"})), HasSubstr("unknown format"));
    ImportOptions how = options({"a.txt"});
    how.format = ImportFormat::kIdx;
    how.test_fraction = 0.5;
    EXPECT_THAT(error(how), HasSubstr("not an IDX file"));
    how.format = ImportFormat::kNpy;
    EXPECT_THAT(error(how), AllOf(HasSubstr("a.txt"), HasSubstr("NumPy header")));
    write_mnist_like(false);
    how = options();
    how.shape = {2, 2, 3};
    EXPECT_THAT(error(how), AllOf(HasSubstr("[2,2,3]"), HasSubstr("[2,3]")));
    how = options();
    how.output = output("none/out.h5");
    EXPECT_THAT(error(how), AllOf(HasSubstr("none/out.h5"), HasSubstr("No such file")));
    how = options();
    how.test_fraction = 1.0;
    EXPECT_THROW(import(how), UsageError);
    EXPECT_THROW(import(ImportOptions{}), UsageError);
    EXPECT_EQ(parse_word<ImportFormat>("cifar100", "import"), ImportFormat::kCifar100);
    EXPECT_EQ(word_of(ImportFormat::kAuto), "auto");
    EXPECT_THROW((void)parse_word<ImportFormat>("mnist", "import"), UsageError);
}

class ImportNpyTest : public ImportTest {
protected:
    void SetUp() override {
        const std::string command = std::string("'" COHORT_TEST_PYTHON "' '" COHORT_TEST_SOURCE
                                                "/tests/tools/npy_files.py' '") +
                                    made_.path() + "'";
        ASSERT_EQ(std::system(command.c_str()), 0) << "python3 with numpy is needed";
    }
    ImportOptions pair(const std::string& samples, const std::string& labels) const {
        const auto put = [&](const std::string& from, const std::string& to) {
            fs::copy_file(made_.file(from + ".npy"), file(to + ".npy"),
                          fs::copy_options::overwrite_existing);
        };
        put(samples, "x_train");
        put(labels, "y_train");
        put(samples, "x_test");
        put(labels, "y_test");
        return options();
    }
    TempFolder made_;
};

TEST_F(ImportNpyTest, ReadsWhatNumpyWrites) {
    std::vector<float> expected(120);
    std::iota(expected.begin(), expected.end(), 0.0F);
    for (const char* name : {"u1", "u1_v2", "u1_v3"}) {
        const ImportReport report = import(pair(name, "label_li8"));
        EXPECT_EQ(report.format, ImportFormat::kNpy);
        EXPECT_THAT(report.train.sample_shape, ElementsAre(1, 2, 3)) << name;
        EXPECT_EQ(chunk("train").data.at(119), std::byte{119}) << name;
    }
    EXPECT_THAT(import(pair("u1_flat", "label_li8")).train.sample_shape, ElementsAre(6));
    for (const char* name : {"f4", "f4_big"}) {
        import(pair(name, "label_li8"));
        EXPECT_EQ(floats(chunk("train")), expected) << name;
    }
    for (const char* name : {"label_u1", "label_i1", "label_lu2", "label_li2", "label_bi4",
                             "label_lu4", "label_li8", "label_bu8", "label_column"}) {
        import(pair("u1", name));
        EXPECT_EQ(chunk("test").labels.at(19), 3) << name;
        EXPECT_EQ(chunk("test").labels.at(18), 2) << name;
    }
}

TEST_F(ImportNpyTest, NamesWhatIsWrong) {
    const auto says = [&](const char* samples, const char* labels, const char* words) {
        EXPECT_THAT(error(pair(samples, labels)), AllOf(HasSubstr("_train.npy"), HasSubstr(words)))
            << samples << " " << labels;
    };
    says("f8", "label_li8", "expected u1 or f4, got <f8");
    says("fortran", "label_li8", "Fortran order");
    says("structure", "label_li8", "a structure");
    says("single", "label_li8", "a single value");
    says("u1", "label_short", "expected 19 samples, got 20");
    says("u1", "label_negative", "label 0 is out of range");
    says("u1", "label_huge", "out of range");
    says("u1", "label_c8", "expected integers, or f4 or f8 to predict numbers, got <c8");
    says("u1", "label_matrix", "got [20,2]");
    const ImportOptions how = pair("u1", "label_li8");
    const Bytes whole = read(file("x_train.npy"));
    for (const std::size_t length :
         {whole.size() - 1, std::size_t{130}, std::size_t{60}, std::size_t{9}, std::size_t{7}}) {
        write(file("x_train.npy"), whole.substr(0, length));
        EXPECT_THAT(error(how), AllOf(HasSubstr("x_train.npy"), HasSubstr("ends within")))
            << length;
    }
    write(file("x_train.npy"), whole + "x");
    EXPECT_THAT(error(how), HasSubstr("longer"));
}

}  // namespace
}  // namespace cohort
