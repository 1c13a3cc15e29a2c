// What a folder holds: damaged, missing and foreign files are named, never left out.
#include "support/data/import_test.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ImportFolderTest : public ImportTest {
protected:
    void write_cifar10() {
        for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                 "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
            write(file(name), "\3" + counting(3072) + "\4" + counting(3072));
        }
    }
    /// The error with the format given and with the format found.
    void expect_both(ImportFormat format, const ::testing::Matcher<std::string>& matcher) {
        for (const ImportFormat how : {format, ImportFormat::kAuto}) {
            ImportOptions both = options();
            both.format = how;
            EXPECT_THAT(error(both), matcher) << word_of(how);
        }
    }
};

TEST_F(ImportFolderTest, RefusesADamagedCifarFileByName) {
    write_cifar10();
    const std::string third = file("data_batch_3.bin");
    fs::resize_file(third, 2 * 3073 - 7);
    expect_both(ImportFormat::kCifar10,
                AllOf(HasSubstr(third), HasSubstr("multiple of 3073 bytes, got 6139")));
    fs::resize_file(third, 0);
    expect_both(ImportFormat::kCifar10, AllOf(HasSubstr(third), HasSubstr("empty")));
    fs::remove(third);
    fs::create_symlink(file("gone"), third);
    expect_both(ImportFormat::kCifar10, AllOf(HasSubstr(third), HasSubstr("No such file")));
    write_cifar10();
    fs::resize_file(file("test_batch.bin"), 3074);
    expect_both(ImportFormat::kCifar10, AllOf(HasSubstr("test_batch.bin"), HasSubstr("got 3074")));
}

TEST_F(ImportFolderTest, RefusesADamagedCifar100FileByName) {
    write(file("train.bin"), "\1\x31" + counting(3072));
    write(file("test.bin"), "\1\x31" + counting(3071));
    expect_both(ImportFormat::kCifar100,
                AllOf(HasSubstr("test.bin"), HasSubstr("multiple of 3074 bytes, got 3073")));
}

TEST_F(ImportFolderTest, NamesMissingPartsOfAKnownSet) {
    write_cifar10();
    fs::remove(file("data_batch_4.bin"));
    expect_both(ImportFormat::kCifar10,
                AllOf(HasSubstr("[" + folder() + "]"), HasSubstr("data_batch_4.bin is missing")));
    fs::remove(file("data_batch_2.bin"));
    expect_both(ImportFormat::kCifar10,
                HasSubstr("data_batch_2.bin, data_batch_4.bin are missing"));
    write_cifar10();
    fs::remove(file("test_batch.bin"));
    expect_both(ImportFormat::kCifar10, HasSubstr("test_batch.bin is missing"));
    ImportOptions how = options();
    how.test_fraction = 0.5;
    EXPECT_EQ(import(how).train.classes, 10) << "no test file is needed";
    how = options({"data_batch_1.bin", "data_batch_2.bin"});
    how.test_fraction = 0.5;
    EXPECT_EQ(import(how).files.size(), 2U) << "some parts, by name";
}

TEST_F(ImportFolderTest, NamesMissingPartsOfCifar100AndIdx) {
    write(file("test.bin"), "\1\x31" + counting(3072));
    expect_both(ImportFormat::kCifar100, HasSubstr("train.bin is missing"));
    fs::remove(file("test.bin"));
    for (const char* missing : {"train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"}) {
        write_mnist_like(true);
        fs::remove(file(missing + std::string(".gz")));
        expect_both(ImportFormat::kIdx, HasSubstr(missing + std::string(" is missing")));
    }
}

TEST_F(ImportFolderTest, BlamesTheIdxFileThatIsNone) {
    for (const char* name : {"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"}) {
        write_mnist_like(true);
        write(file(name), "<html>404</html>\n");
        expect_both(ImportFormat::kIdx,
                    AllOf(HasSubstr("[" + file(name) + "]"), HasSubstr("a web page lies in")));
        write(file(name), "some words, no data\n");
        expect_both(ImportFormat::kIdx,
                    AllOf(HasSubstr("[" + file(name) + "]"), HasSubstr("not an IDX file")));
        write(file(name), "");
        expect_both(ImportFormat::kIdx, AllOf(HasSubstr(file(name)), HasSubstr("got 0")));
    }
    write_mnist_like(true);
    write_gz(file("t10k-images-idx3-ubyte.gz"), idx(8, {2}, "\1\2"));
    expect_both(ImportFormat::kIdx, AllOf(HasSubstr("[" + file("t10k-images-idx3-ubyte.gz") + "]"),
                                          HasSubstr("labels")));
}

TEST_F(ImportFolderTest, SaysWhatAFolderHoldsInstead) {
    write(file("train.csv"), "0,1,2\n");
    write(file("test.csv"), "0,1,2\n");
    write(file("README"), "not data");
    ImportOptions how = options();
    how.format = ImportFormat::kIdx;
    EXPECT_THAT(error(how), AllOf(HasSubstr("nothing to import"), HasSubstr("expected idx files"),
                                  HasSubstr("got README, test.csv (csv), train.csv (csv)")));
}

TEST_F(ImportFolderTest, AnAbsentInputIsAFileError) {
    for (const ImportFormat format : {ImportFormat::kAuto, ImportFormat::kCifar10}) {
        ImportOptions how = options({"absent"});
        how.format = format;
        EXPECT_THAT(error(how),
                    AllOf(HasSubstr(file("absent")), HasSubstr("no such file or folder")));
    }
}

}  // namespace
}  // namespace cohort
