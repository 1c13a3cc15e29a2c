// The file in which choices by measurement are kept.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "layers/tuning.hpp"
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

TEST(MeasuringTurn, OfTwoThatShareAFileOneMeasuresAndTheOtherFindsTheChoice) {
    const TempFolder folder;
    const std::string file = folder.file("algorithms.txt");
    TuningCache first(file);
    TuningCache second(file);
    std::thread other;
    {
        const MeasuringTurn turn(first);
        EXPECT_TRUE(turn.alone());
        other = std::thread([&] {
            const MeasuringTurn next(second);
            EXPECT_TRUE(next.alone());
            EXPECT_EQ(second.find("conv a"), 3);
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        first.remember("conv a", 3);
    }
    other.join();
    EXPECT_EQ(test::read_bytes(file), "3 conv a\n");
}

TEST(MeasuringTurn, DoesNotWaitForEverAndWaitsOnce) {
    const TempFolder folder;
    const std::string file = folder.file("algorithms.txt");
    TuningCache frozen(file);
    TuningCache other(file);
    const MeasuringTurn turn(frozen);
    EXPECT_FALSE(MeasuringTurn(other, Clock::Seconds(0.02)).alone());
    EXPECT_FALSE(MeasuringTurn(other).alone()) << "and it comes at once";
}

TEST(MeasuringTurn, IsEverybodysWithoutAFile) {
    const TempFolder folder;
    TuningCache nowhere;
    EXPECT_FALSE(MeasuringTurn(nowhere).alone());
    TuningCache missing(folder.file("no/such/folder/algorithms.txt"));
    EXPECT_FALSE(MeasuringTurn(missing).alone());
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
