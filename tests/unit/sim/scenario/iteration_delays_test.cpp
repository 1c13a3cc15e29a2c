// Patterns of single iterations: random times, and times of a recording.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "sim/scenario/trace.hpp"
#include "support/core/temp_folder.hpp"
#include "support/sim/virtual_runs.hpp"

namespace cohort {
namespace {

using test::VirtualRuns;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double kIteration = 0.1;

ClusterShape shape_of(int workers) {
    return spread_over_nodes(workers, workers, 1, false, kIteration);
}

/// Times of iterations, [iterations][workers].
std::vector<std::vector<double>> times(const std::string& pattern, int workers, int iterations,
                                       std::uint64_t seed = 1) {
    const auto scenario = make_pattern(pattern, shape_of(workers), seed);
    std::vector<std::vector<double>> all(static_cast<std::size_t>(iterations));
    for (std::size_t i = 0; i < all.size(); ++i) {
        for (int worker = 0; worker < workers; ++worker) {
            all[i].push_back(kIteration +
                             scenario->next_delay_s(worker, static_cast<std::int64_t>(i)));
        }
    }
    return all;
}

double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// E[max]/mean.
double strength(const std::vector<std::vector<double>>& rows) {
    double most = 0;
    double middle = 0;
    for (const auto& row : rows) {
        most += *std::max_element(row.begin(), row.end());
        middle += mean(row);
    }
    return most / middle;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
    double ab = 0;
    double aa = 0;
    double bb = 0;
    const double ma = mean(a);
    const double mb = mean(b);
    for (std::size_t i = 0; i < a.size(); ++i) {
        ab += (a[i] - ma) * (b[i] - mb);
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
    }
    return ab / std::sqrt(aa * bb);
}

/// Logarithms of a worker's delays: normal under the lognormal law.
std::vector<double> logs(const std::vector<std::vector<double>>& rows, std::size_t worker) {
    std::vector<double> all;
    all.reserve(rows.size());
    for (const auto& row : rows) {
        all.push_back(std::log(row[worker] - kIteration));
    }
    return all;
}

TEST(Jitter, TheSlowestTakesStrengthTimesTheMean) {
    for (const char* law : {"lognormal", "exponential", "pareto"}) {
        for (const double wanted : {1.2, 1.5, 2.0}) {
            const std::string pattern = "jitter:" + std::to_string(wanted) + ":" + law;
            EXPECT_NEAR(strength(times(pattern, 8, 20000, 5)), wanted, 0.03 * wanted) << pattern;
        }
    }
    for (const char* pattern : {"jitter:1.5:exponential:0.6", "jitter:1.5:lognormal:0.3:0.6",
                                "jitter:1.3:pareto:0.2:0.3"}) {
        const double wanted = pattern[9] == '5' ? 1.5 : 1.3;
        EXPECT_NEAR(strength(times(pattern, 8, 40000, 5)), wanted, 0.04 * wanted)
            << pattern << ": whatever the correlations";
    }
}

/// Mean and mean maximum of the laws' variables, in closed form.
struct Means {
    double one = 0;
    double greatest = 0;
};
Means lognormal_of_two() {
    return {.one = std::exp(0.5), .greatest = std::exp(0.5) * std::erfc(-0.5)};
}
Means exponential_of(int workers) {
    double harmonic = 0;
    for (int i = 1; i <= workers; ++i) {
        harmonic += 1.0 / i;
    }
    return {.one = 1, .greatest = harmonic};
}
/// (1 - u)^(-1/a) - 1 of uniform u, a = 2.5: the greatest of N has u ~ Beta(N, 1).
Means pareto_of(int workers) {
    constexpr double kPower = 1 / 2.5;
    const double greatest =
        std::tgamma(workers + 1.0) * std::tgamma(1 - kPower) / std::tgamma(workers + 1 - kPower);
    return {.one = 1 / (1 - kPower) - 1, .greatest = greatest - 1};
}

/// I + M s = F (I + m s): what a worker takes on average, in iterations, and the greatest strength.
TEST(Jitter, HasTheClosedFormsOfItsLaws) {
    const auto check = [](const std::string& law, int workers, const Means& means) {
        constexpr double kStrength = 1.3;
        const double scale = (kStrength - 1) / (means.greatest - kStrength * means.one);
        double sum = 0;
        const auto rows = times("jitter:1.3:" + law, workers, 40000);
        for (const auto& row : rows) {
            sum += mean(row) / static_cast<double>(rows.size());
        }
        const double delay = kIteration * scale * means.one;
        EXPECT_NEAR(sum, kIteration + delay, 0.06 * delay) << law << ", " << workers;
        const double limit = means.greatest / means.one;
        const auto made = [&](double strength) {
            return make_pattern("jitter:" + std::to_string(strength) + ":" + law, shape_of(workers),
                                1);
        };
        EXPECT_TRUE(made(0.95 * limit)) << law;
        EXPECT_THROW((void)made(1.05 * limit), UsageError) << law;
    };
    check("lognormal", 2, lognormal_of_two());
    for (const int workers : {2, 8}) {
        check("exponential", workers, exponential_of(workers));
        check("pareto", workers, pareto_of(workers));
    }
}

TEST(Jitter, CorrelatesWorkersAndIterationsAsTold) {
    const auto rows = times("jitter:1.2:lognormal:0.5:0.3", 2, 20000);
    const std::vector<double> first = logs(rows, 0);
    const std::vector<double> second = logs(rows, 1);
    EXPECT_NEAR(correlation(first, second), 0.5, 0.03);
    EXPECT_NEAR(correlation({first.begin(), first.end() - 1}, {first.begin() + 1, first.end()}),
                0.3, 0.03);
    const auto free = times("jitter:1.2", 2, 20000);
    EXPECT_NEAR(correlation(logs(free, 0), logs(free, 1)), 0, 0.03);
}

TEST(Jitter, DependsOnTheSeedAloneAndNotOnWhoAsksFirst) {
    EXPECT_EQ(times("jitter:2", 4, 50, 3), times("jitter:2", 4, 50, 3));
    EXPECT_NE(times("jitter:2", 4, 50, 3), times("jitter:2", 4, 50, 4));
    const auto expected = times("jitter:1.2:pareto:0.4:0.2", 2, 20, 3);
    const auto scenario = make_pattern("jitter:1.2:pareto:0.4:0.2", shape_of(2), 3);
    for (const int worker : {1, 0}) {
        for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_EQ(kIteration + scenario->next_delay_s(worker, static_cast<std::int64_t>(i)),
                      expected[i][static_cast<std::size_t>(worker)]);
        }
    }
}

TEST(Jitter, OfStrengthOneIsNone) {
    for (const auto& row : times("jitter:1", 4, 10)) {
        EXPECT_EQ(row, std::vector<double>(4, kIteration));
    }
}

TEST(Jitter, ErrorsNameThePart) {
    const auto made = [](const std::string& pattern) {
        return [pattern] { (void)make_pattern(pattern, shape_of(8), 1); };
    };
    const auto refused = [](const char* text) {
        return ThrowsMessage<UsageError>(HasSubstr(text));
    };
    EXPECT_THAT(made("jitter:0.5"),
                refused("the strength cannot be used; expected a number from 1"));
    EXPECT_THAT(
        made("jitter:2:cauchy"),
        refused("no such law; expected lognormal, exponential or pareto, got 'jitter:2:cau"));
    EXPECT_THAT(made("jitter:2:pareto:1"), refused("correlation between workers"));
    EXPECT_THAT(made("jitter:2:pareto:0:-0.1"), refused("correlation over iterations"));
    EXPECT_THAT(made("jitter:2:pareto:0:0:0"), refused("too many parts"));
    EXPECT_THAT(made("jitter:8"), refused("expected a strength below"));
}

TEST(Recorded, RepeatsItsLinesFromOneThatTheSeedDraws) {
    TempFolder folder;
    std::ofstream(folder.file("r.csv")) << "# measured\niteration,worker0_ms,worker1_ms\n"
                                           "0,10,20\n1,30,40\n2,50,60\n";
    const auto scenario = make_pattern("recorded:" + folder.file("r.csv"), shape_of(4), 1);
    std::vector<double> first;
    for (int i = 0; i < 6; ++i) {
        first.push_back(scenario->next_delay_s(0, i));
        EXPECT_NEAR(scenario->next_delay_s(1, i), first.back() + 0.01, 1e-12) << "the same line";
    }
    EXPECT_EQ(first[0], first[3]);
    std::sort(first.begin(), first.end());
    EXPECT_EQ(first, (std::vector<double>{0.01, 0.01, 0.03, 0.03, 0.05, 0.05}));
    EXPECT_NEAR(scenario->next_delay_s(3, 6), scenario->next_delay_s(2, 6) + 0.01, 1e-12)
        << "further workers take the columns again";
}

TEST(Recorded, FourRecordingsAreThere) {
    // Means between workers, as statistics of the files have them, ms.
    for (const auto& [name, least, most] :
         {std::tuple("alexnet", 90, 110), std::tuple("lstm", 220, 250),
          std::tuple("resnet20", 210, 250), std::tuple("vgg13", 180, 230)}) {
        double sum = 0;
        const auto rows = times(std::string("recorded:") + name, 8, 400);
        for (const auto& row : rows) {
            sum += 1000 * (mean(row) - kIteration) / static_cast<double>(rows.size());
        }
        EXPECT_GT(sum, least) << name;
        EXPECT_LT(sum, most) << name;
    }
}

TEST(Recorded, ErrorsNameLineAndField) {
    TempFolder folder;
    const auto read = [&folder](const std::string& text) {
        std::ofstream(folder.file("r.csv")) << text;
        return
            [&folder] { (void)make_pattern("recorded:" + folder.file("r.csv"), shape_of(2), 1); };
    };
    const auto refused = [](const char* text) { return ThrowsMessage<FileError>(HasSubstr(text)); };
    const std::string header = "iteration,worker0_ms,worker1_ms\n";
    EXPECT_THAT(read(header + "0,1,2\n1,3\n"), refused("line 3"));
    EXPECT_THAT(read(header + "0,1,x\n"), refused("line 2, worker1_ms] cannot be used"));
    EXPECT_THAT(read(header + "0,-1,2\n"), refused("line 2, worker0_ms"));
    EXPECT_THAT(read(header + "x,1,2\n"), refused("line 2, iteration] cannot be used; expected a"));
    EXPECT_THAT(read(header + "4,1,2\n4,1,2\n"),
                refused("line 3, iteration] cannot be used; expected a whole number, from 5"));
    EXPECT_THAT(read(header), refused("no iteration"));
    EXPECT_THAT(read("time_s,target\n"), refused("not the header of a recording"));
    EXPECT_THAT([] { (void)make_pattern("recorded:nothing", shape_of(2), 1); },
                ThrowsMessage<UsageError>(HasSubstr("alexnet, lstm, resnet20, vgg13, or a file")));
}

/// ssgd waits for the slowest of every iteration, asgd for nobody.
TEST(Delays, MakeVirtualRoundsAsLongAsTheSlowestIteration) {
    TempFolder folder;
    VirtualRuns runs;  // 0.1 s an iteration
    const auto period = [&](const std::string& mode, const std::string& rows) {
        SimulateOptions options = runs.options(mode, 2, 2000);
        options.trace = folder.file("r.csv");
        std::ofstream(options.trace) << "iteration,worker0_ms,worker1_ms\n" << rows;
        const SimulationResult result = simulate(options, {});
        return result.virtual_s / static_cast<double>(result.updates);
    };
    EXPECT_NEAR(period("ssgd", "0,0,100\n1,200,0\n"), 0.1 + 0.15, 0.001);
    EXPECT_NEAR(period("asgd", "0,0,100\n1,0,100\n"), 1 / (1 / 0.1 + 1 / 0.2), 0.001);
}

/// Workers that drifted apart have the same rows again as soon as they begin together: nothing is
/// left of another mode that was in force before.
TEST(Delays, BelongToTheMomentWhateverWasInForceBefore) {
    const auto end_s = [](const std::string& schedule, std::int64_t samples) {
        VirtualRuns runs;
        SimulateOptions options = runs.options("ssgd", 8, samples);
        options.mode.clear();
        options.mode_schedule = schedule;
        options.pattern = "recorded:alexnet";
        return simulate(options, {}).virtual_s;
    };
    const std::string before = "0:ssgd,1000:asgd,4000:ssgd";
    const double after_s = end_s(before, 24000) - end_s(before, 8000);
    EXPECT_NEAR(after_s / (end_s("0:ssgd", 24000) - end_s("0:ssgd", 8000)), 1, 0.02);
}

}  // namespace
}  // namespace cohort
