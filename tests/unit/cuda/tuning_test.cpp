// The file in which choices by measurement are kept.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "cohort/core/clock.hpp"
#include "layers/tuning.hpp"
#include "support/core/child_process.hpp"
#include "support/core/file_bytes.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

TEST(TuningCache, RemembersFromRunToRun) {
    const TempFolder folder;
    const std::string file = folder.file("algorithms.txt");
    {
        TuningCache cache(file);
        EXPECT_EQ(cache.find("conv a"), -1);
        cache.remember("conv a", 3);
        cache.remember("conv b", 0);
        EXPECT_EQ(cache.find("conv a"), 3);
    }
    const TuningCache again(file);
    EXPECT_EQ(again.find("conv a"), 3);
    EXPECT_EQ(again.find("conv b"), 0);
    EXPECT_EQ(again.find("conv"), -1);
    EXPECT_EQ(test::read_bytes(file), "3 conv a\n0 conv b\n");
}

TEST(TuningCache, PassesOverLinesThatAreCutShortOrForeign) {
    const TempFolder folder;
    const std::string file = folder.file("algorithms.txt");
    std::ofstream(file)
        << "\n7\nconv x\n-2 negative\n99999999999999999999 huge\n4 good key\n 5 space\n"
        << "6x letters\n2 good key\n8 cut";
    const TuningCache cache(file);
    EXPECT_EQ(cache.find("good key"), 2) << "the last of several counts";
    EXPECT_EQ(cache.find("negative"), -1);
    EXPECT_EQ(cache.find("huge"), -1);
    EXPECT_EQ(cache.find("space"), -1);
    EXPECT_EQ(cache.find("letters"), -1);
}

TEST(TuningCache, SeveralWritersShareAFile) {
    constexpr int kWriters = 4;
    constexpr int kKeys = 50;
    const TempFolder folder;
    const std::string file = folder.file("algorithms.txt");
    std::vector<std::thread> writers;
    for (int w = 0; w < kWriters; ++w) {
        writers.emplace_back([&, w] {
            TuningCache cache(file);
            for (int k = 0; k < kKeys; ++k) {
                cache.remember("writer " + std::to_string(w) + " key " + std::to_string(k), k);
            }
        });
    }
    for (std::thread& writer : writers) {
        writer.join();
    }
    const TuningCache all(file);
    for (int w = 0; w < kWriters; ++w) {
        for (int k = 0; k < kKeys; ++k) {
            EXPECT_EQ(all.find("writer " + std::to_string(w) + " key " + std::to_string(k)), k);
        }
    }
}

constexpr Clock::Seconds kForEver{1e9};

/// Two processes' caches of one file.
struct TwoCaches {
    TempFolder folder;
    std::string file = folder.file("algorithms.txt");
    TuningCache first{file};
    TuningCache second{file};
};

TEST(MeasuringTurn, OfTwoThatShareAFileOneMeasuresAtATime) {
    TwoCaches caches;
    std::thread other;
    {
        const MeasuringTurn turn(caches.first, "conv a");
        EXPECT_TRUE(turn.has_lock());
        other = std::thread([&] {
            const MeasuringTurn next(caches.second, "conv b", kForEver);
            EXPECT_TRUE(next.has_lock());
            EXPECT_EQ(caches.second.find("conv a"), 3);
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        caches.first.remember("conv a", 3);
    }
    other.join();
    EXPECT_EQ(test::read_bytes(caches.file), "3 conv a\n");
}

TEST(MeasuringTurn, EndsItsWaitWhenTheChoiceIsKnown) {
    TwoCaches caches;
    const MeasuringTurn turn(caches.first, "conv a");
    std::thread other([&] {
        const MeasuringTurn next(caches.second, "conv a", kForEver);
        EXPECT_FALSE(next.has_lock());
        EXPECT_EQ(caches.second.find("conv a"), 3);
    });
    caches.first.remember("conv a", 3);
    other.join();
}

TEST(MeasuringTurn, EndsBeforeTheProcessesThatWereForkedMeanwhile) {
    TwoCaches caches;
    std::optional<MeasuringTurn> turn(std::in_place, caches.first, "conv a");
    const IdleChild child;
    turn.reset();
    EXPECT_TRUE(MeasuringTurn(caches.second, "conv b", Clock::Seconds(0)).has_lock());
}

TEST(MeasuringTurn, WaitsInVainForSoLongInAllAndStillReads) {
    TwoCaches caches;
    const MeasuringTurn frozen(caches.first, "conv a");
    EXPECT_FALSE(MeasuringTurn(caches.second, "conv a", Clock::Seconds(0.05)).has_lock());
    EXPECT_EQ(caches.second.find("conv b"), -1);
    caches.first.remember("conv b", 2);
    const SteadyClock clock;
    const Clock::Seconds before = clock.now();
    constexpr int kTurns = 500;
    for (int turn = 0; turn < kTurns; ++turn) {
        EXPECT_FALSE(MeasuringTurn(caches.second, "conv c", Clock::Seconds(0.05)).has_lock());
    }
    EXPECT_LT((clock.now() - before) / kTurns, Clock::Seconds(0.05)) << "it has waited that long";
    EXPECT_EQ(caches.second.find("conv b"), 2);
}

/// The file names an algorithm that this program lacks: the operation is measured anew, by one
/// process at a time.
TEST(MeasuringTurn, WaitsForAnotherChoiceThanTheOneThatIsNoUse) {
    TwoCaches caches;
    caches.first.remember_name("conv a", "gone");
    {
        const MeasuringTurn turn(caches.second, "conv a");  // reads it
    }
    const MeasuringTurn turn(caches.first, "conv a");
    std::thread other([&] {
        const MeasuringTurn next(caches.second, "conv a", kForEver);
        EXPECT_FALSE(next.has_lock());
        EXPECT_EQ(caches.second.find("conv a"), 3);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    caches.first.remember("conv a", 3);
    other.join();
}

TEST(MeasuringTurn, SeesAFileThatWasWrittenAnew) {
    const TempFolder folder;
    const std::string file = folder.file("algorithms.txt");
    TuningCache cache(file);
    cache.remember("a key that is longer than the other", 1);
    { const MeasuringTurn seen(cache, "conv c"); }
    std::filesystem::remove(file);
    TuningCache(file).remember("conv b", 2);
    EXPECT_TRUE(MeasuringTurn(cache, "conv b").has_lock());
    EXPECT_EQ(cache.find("conv b"), 2);
}

TEST(MeasuringTurn, IsEverybodysWithoutAFile) {
    const TempFolder folder;
    TuningCache nowhere;
    EXPECT_FALSE(MeasuringTurn(nowhere, "conv a").has_lock());
    TuningCache missing(folder.file("no/such/folder/algorithms.txt"));
    EXPECT_FALSE(MeasuringTurn(missing, "conv a").has_lock());
}

TEST(TuningCache, EndsALineThatWasCutShort) {
    const TempFolder folder;
    const std::string file = folder.file("algorithms.txt");
    std::ofstream(file) << "4 good key\n8 cut";
    TuningCache(file).remember("conv a", 3);
    const TuningCache again(file);
    EXPECT_EQ(again.find("conv a"), 3);
    EXPECT_EQ(again.find("good key"), 4);
    EXPECT_EQ(again.find("cut"), -1) << "it may be the beginning of another key";
}

/// A process that reads while another one writes.
TEST(TuningCache, TakesNoLineWithoutItsEnd) {
    const TempFolder folder;
    const std::string file = folder.file("algorithms.txt");
    std::ofstream(file) << "4 good key\n8 product of 64";
    EXPECT_EQ(TuningCache(file).find("product of 64"), -1);
    std::ofstream(file, std::ios::app) << " columns\n";
    EXPECT_EQ(TuningCache(file).find("product of 64 columns"), 8);
}

TEST(TuningCache, WorksWithoutItsFile) {
    const TempFolder folder;
    TuningCache cache(folder.file("no/such/folder/algorithms.txt"));
    cache.remember("conv a", 3);
    cache.remember("conv b", 4);
    EXPECT_EQ(cache.find("conv a"), 3);
    EXPECT_EQ(cache.find("conv b"), 4);
    TuningCache without;
    without.remember("conv a", 1);
    EXPECT_EQ(without.find("conv a"), 1);
}

}  // namespace
}  // namespace cohort
