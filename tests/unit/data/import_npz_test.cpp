// Arrays in .npz archives, and samples whose channels come last.
#include "support/data/import_test.hpp"

#include <cstdlib>

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NpzTest : public ImportTest {
protected:
    void SetUp() override {
        const std::string command = std::string("'" COHORT_TEST_PYTHON "' '" COHORT_TEST_SOURCE
                                                "/tests/tools/npz_files.py' '") +
                                    folder() + "'";
        ASSERT_EQ(std::system(command.c_str()), 0) << "python3 with numpy is needed";
    }
};

/// Element [n][c][y][x] of what npz_files.py writes as [n][y][x][c].
std::byte written(std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    return static_cast<std::byte>((((n * 5 + y) * 6 + x) * 3 + c) & 0xFFU);
}

void expect_samples(const RawChunk& chunk, std::size_t samples) {
    ASSERT_EQ(chunk.data.size(), samples * 90);
    for (std::size_t i = 0; i < chunk.data.size(); ++i) {
        ASSERT_EQ(chunk.data[i], written(i / 90, i / 30 % 3, i / 6 % 5, i % 6)) << i;
        ASSERT_EQ(chunk.labels[i / 90], static_cast<std::int32_t>(i / 90 % 4));
    }
}

TEST_F(NpzTest, CompressedOrNotAndChannelsFirstGiveTheSameSet) {
    for (const char* name : {"stored.npz", "deflated.npz", "bzip2.npz", "first.npz"}) {
        SCOPED_TRACE(name);
        const ImportReport report = import(options({name}));
        EXPECT_EQ(report.format, ImportFormat::kNpy);
        EXPECT_EQ(report.files.size(), 4U);
        EXPECT_THAT(report.train.sample_shape, ElementsAre(3, 5, 6));
        expect_samples(chunk("train"), 20);
        expect_samples(chunk("test"), 5);
    }
}

TEST_F(NpzTest, AnArchiveEachForTrainAndTest) {
    const ImportReport report = import(options({"train.npz", "test.npz"}));
    EXPECT_EQ(report.train.samples, 20);
    EXPECT_EQ(report.test.samples, 5);
    expect_samples(chunk("train"), 20);
}

TEST_F(NpzTest, ChannelsStayLastWhereThatIsWanted) {
    ImportOptions how = options({"stored.npz"});
    how.shape = {5, 6, 3};
    EXPECT_THAT(import(how).train.sample_shape, ElementsAre(5, 6, 3));
    EXPECT_EQ(chunk("train").data[1], std::byte{1});
    how.shape = {3, 5, 6};
    EXPECT_THAT(import(how).train.sample_shape, ElementsAre(3, 5, 6));
    expect_samples(chunk("train"), 20);
}

TEST_F(NpzTest, DamageIsFoundAndNamed) {
    for (const char* name : {"stored.npz", "deflated.npz"}) {
        SCOPED_TRACE(name);
        const Bytes good = read(file(name));
        const std::size_t data = good.find("NUMPY");
        // In the first array's data; cut off; without the end record.
        Bytes bad = good;
        bad[name[0] == 's' ? data + 200 : 90] ^= '\x10';
        write(file(name), bad);
        EXPECT_THAT(error(options({name})), AllOf(HasSubstr(name), HasSubstr("/x_train.npy")));
        write(file(name), good.substr(0, good.size() / 2));
        EXPECT_THAT(error(options({name})), AllOf(HasSubstr(name), HasSubstr("not a ZIP archive")));
        write(file(name), "");
        EXPECT_THAT(error(options({name})), AllOf(HasSubstr(name), HasSubstr("not a ZIP archive")));
        write(file(name), good);
    }
    EXPECT_THAT(error(options({"odd.npz"})), AllOf(HasSubstr(".npy"), HasSubstr("method 97")));
    EXPECT_THAT(error(options({"texts.npz"})), HasSubstr("the archive has no arrays"));
}

/// No damage of a single byte may crash the reader or change what is stored unnoticed.
TEST_F(NpzTest, EveryByteIsChecked) {
    const Bytes good = read(file("deflated.npz"));
    import(options({"deflated.npz"}));
    const RawChunk wanted = chunk("train");
    for (std::size_t at = 0; at < good.size(); at += 31) {
        Bytes bad = good;
        bad[at] ^= '\x21';
        write(file("deflated.npz"), bad);
        std::filesystem::remove(output());
        try {
            import(options({"deflated.npz"}));
        } catch (const FileError&) {
            continue;
        } catch (const UsageError&) {
            continue;  // a changed name: no test data
        }
        EXPECT_EQ(chunk("train").data, wanted.data) << at;
    }
}

}  // namespace
}  // namespace cohort
