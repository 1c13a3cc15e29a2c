#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cohort/core/error.hpp"
#include "cohort/report/experiment.hpp"
#include "data/file/text_file.hpp"
#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

/// Knows a few options, as the program's command line would.
std::string check_option(const std::string& name, const std::string& value) {
    for (const char* known : {"mode", "mode-schedule", "data", "pattern", "trace", "lr", "momentum",
                              "no-train", "samples", "workers"}) {
        if (name == known) {
            return value == "nonsense" ? "value refused" : "";
        }
    }
    return "no such option of cohort simulate";
}

Experiment read(const std::string& text, const OptionList& overrides = {}) {
    const TempFolder folder;
    replace_text_file(folder.file("e.toml"), text);
    return read_experiment(folder.file("e.toml"), overrides, check_option);
}

std::string error_of(const std::string& text, const OptionList& overrides = {}) {
    return test::message_of<UsageError>([&] { return read(text, overrides); });
}

TEST(Experiment, HoldsWhatTheFileSays) {
    const Experiment experiment = read(R"(title = "Small"
seeds = [1, 2]
pattern-seeds = [7, 8]
patterns = ["healthy", "persistent:2"]

[job]
data = "d.h5"
momentum = 0.9
samples = 1000
no-train = true

[[mode]]
mode = "ssgd"
reference = true

[[mode]]
name = "asgd, published"
mode = "asgd"
momentum = 0
lr = [0.1, 0.05]
role = "baseline"
cites = "Someone, 2012"
fixed = false

[[pattern]]
name = "recorded"
trace = "t.csv"

[tuning]
lr = [0.2, 0.1, 0.05]
seeds = [11]
pattern = "persistent:1.34"
samples = 500
)");
    EXPECT_EQ(experiment.title, "Small");
    EXPECT_THAT(experiment.job,
                testing::UnorderedElementsAre(Pair("data", "d.h5"), Pair("momentum", "0.9"),
                                              Pair("samples", "1000"), Pair("no-train", "true")));
    EXPECT_THAT(experiment.seeds, ElementsAre(ExperimentSeed{1, 7}, ExperimentSeed{2, 8}));
    ASSERT_EQ(experiment.modes.size(), 2U);
    EXPECT_EQ(experiment.modes[0].name, "ssgd");
    EXPECT_TRUE(experiment.modes[0].reference);
    EXPECT_TRUE(experiment.modes[0].fixed);
    EXPECT_THAT(experiment.modes[0].lr, ElementsAre(0.2, 0.1, 0.05)) << "the common search";
    EXPECT_EQ(experiment.modes[1].name, "asgd, published");
    EXPECT_THAT(experiment.modes[1].lr, ElementsAre(0.1, 0.05)) << "its own";
    EXPECT_EQ(experiment.modes[1].role, "baseline");
    EXPECT_EQ(experiment.modes[1].cites, "Someone, 2012");
    EXPECT_FALSE(experiment.modes[1].fixed);
    EXPECT_EQ(option_of(experiment.modes[1].options, "momentum"), "0");
    ASSERT_EQ(experiment.patterns.size(), 3U);
    EXPECT_EQ(experiment.patterns[1].name, "persistent:2");
    EXPECT_EQ(experiment.patterns[2].name, "recorded");
    EXPECT_THAT(experiment.patterns[2].options, ElementsAre(Pair("trace", "t.csv")));
    EXPECT_THAT(experiment.tuning.seeds, ElementsAre(ExperimentSeed{11, 11}));
    EXPECT_EQ(experiment.tuning.pattern.name, "persistent:1.34");
    EXPECT_THAT(experiment.tuning.options, ElementsAre(Pair("samples", "500")));
}

TEST(Experiment, DefaultsAreOneHealthyRunOfEachMode) {
    const Experiment experiment = read("[[mode]]\nmode = \"ssgd\"\n");
    ASSERT_EQ(experiment.patterns.size(), 1U);
    EXPECT_EQ(experiment.patterns[0].name, "healthy");
    EXPECT_THAT(experiment.seeds, ElementsAre(ExperimentSeed{1, 1}));
    EXPECT_TRUE(experiment.modes[0].lr.empty());
}

TEST(Experiment, OverridesReplaceOptionsOfTheJob) {
    const Experiment experiment =
        read("[job]\ndata = \"a\"\n[[mode]]\nmode = \"ssgd\"\n", {{"data", "b"}, {"workers", "4"}});
    EXPECT_EQ(option_of(experiment.job, "data"), "b");
    EXPECT_EQ(option_of(experiment.job, "workers"), "4");
    EXPECT_THAT(error_of("[[mode]]\nmode = \"ssgd\"\n", {{"wrokers", "4"}}),
                HasSubstr("[--set wrokers] no such option"));
}

TEST(Experiment, ErrorsNameLineAndKey) {
    const std::string mode = "[[mode]]\nmode = \"ssgd\"\n";
    EXPECT_THAT(error_of("seeds = [1\n" + mode), HasSubstr("e.toml, line 2"));
    EXPECT_THAT(error_of("sedes = [1]\n" + mode), HasSubstr("e.toml, line 1, sedes] not a key"));
    EXPECT_THAT(error_of(mode + "momentun = 0\n"),
                HasSubstr("e.toml, line 3, momentun] no such option"));
    EXPECT_THAT(error_of("[job]\n\nsamples = \"nonsense\"\n" + mode),
                HasSubstr("e.toml, line 3, samples] value refused"));
    EXPECT_THAT(error_of("[job]\nseed = 1\n" + mode),
                HasSubstr("line 2, seed] set by the sweep itself; expected seeds = [1, 2, 3]"));
    EXPECT_THAT(error_of("[job]\nlr = [0.1]\n" + mode), HasSubstr("line 2, lr] a list to choose"));
    EXPECT_THAT(error_of("[job]\nsamples = [1]\n" + mode),
                HasSubstr("line 2, samples] not a value"));
    EXPECT_THAT(error_of(mode + mode), HasSubstr("two modes of one name"));
    EXPECT_THAT(error_of("patterns = [\"healthy\", \"healthy\"]\n" + mode),
                HasSubstr("line 1, pattern] two patterns of one name"));
    EXPECT_THAT(error_of(mode + "[[pattern]]\nname = \"x\"\n"),
                HasSubstr("line 3, pattern] a pattern is a generated one or a trace file"));
    EXPECT_THAT(error_of(mode + "[[pattern]]\npattern = \"healthy\"\ntrace = \"t\"\n"),
                HasSubstr("got both"));
    EXPECT_THAT(error_of("seeds = [1, 1]\n" + mode),
                HasSubstr("line 1, seeds] the number comes twice"));
    EXPECT_THAT(error_of("seeds = [-1]\n" + mode), HasSubstr("line 1, seeds] not a number"));
    EXPECT_THAT(error_of("seeds = []\n" + mode), HasSubstr("line 1, seeds] an empty list"));
    EXPECT_THAT(error_of("seeds = [1, 2]\npattern-seeds = [1]\n" + mode),
                HasSubstr("line 2, pattern-seeds] another length than seeds; expected 2 numbers"));
    EXPECT_THAT(error_of(mode + "role = \"hero\"\n"), HasSubstr("line 3, role] not a role"));
    EXPECT_THAT(error_of(mode + "fixed = \"no\"\n"), HasSubstr("line 3, fixed] not a truth value"));
    EXPECT_THAT(error_of(mode + "lr = [\"fast\"]\n"), HasSubstr("line 3, lr] not a number"));
    EXPECT_THAT(error_of(mode + "cites = \"a\\nb\"\n"), HasSubstr("line 3, cites] not a line"));
    EXPECT_THAT(error_of("[[mode]]\nname = \"x\"\n"), HasSubstr("a table without a mode"));
    EXPECT_THAT(error_of("title = \"none\"\n"), HasSubstr("no modes to compare"));
    EXPECT_THAT(error_of("mode = \"ssgd\"\n"), HasSubstr("line 1, mode] not a list of tables"));
}

TEST(Experiment, OptionsThatAnotherTableSetsAreRefused) {
    const std::string mode = "[[mode]]\nmode = \"ssgd\"\n";
    const std::string pattern = "[[pattern]]\npattern = \"healthy\"\n";
    for (const char* key : {"mode", "mode-schedule", "pattern", "trace"}) {
        EXPECT_THAT(error_of(std::string("[job]\n") + key + " = \"x\"\n" + mode),
                    HasSubstr(std::string("line 2, ") + key + "] cannot be set here; expected"));
        EXPECT_THAT(error_of(mode, {{key, "x"}}),
                    HasSubstr(std::string("[--set ") + key + "] cannot be set here"));
    }
    for (const char* key : {"pattern", "trace"}) {
        EXPECT_THAT(error_of(mode + key + " = \"x\"\n"),
                    HasSubstr(std::string("line 3, ") + key + "] cannot be set here"));
    }
    for (const char* key : {"mode", "mode-schedule", "lr"}) {
        EXPECT_THAT(error_of(mode + pattern + key + " = \"0.1\"\n"),
                    HasSubstr(std::string("line 5, ") + key + "] cannot be set here"));
    }
    for (const char* key : {"mode", "mode-schedule", "trace"}) {
        EXPECT_THAT(error_of(mode + "[tuning]\n" + key + " = \"x\"\n"),
                    HasSubstr(std::string("line 4, ") + key + "] cannot be set here"));
    }
}

TEST(Experiment, StandsOnItsBase) {
    const TempFolder folder;
    replace_text_file(folder.file("e.toml"), R"(title = "Small"
seeds = [1, 2]
patterns = ["healthy"]
[job]
data = "d.h5"
samples = 1000
[tuning]
lr = [0.1, 0.2]
seeds = [11]
[[mode]]
mode = "ssgd"
[[pattern]]
trace = "t.csv"
)");
    replace_text_file(folder.file("more.toml"), R"(base = "e.toml"
patterns = ["persistent:2", "storm"]
[job]
samples = 2000
[[mode]]
mode = "asgd"
versus = true
)");
    const Experiment more = read_experiment(folder.file("more.toml"), {}, check_option);
    EXPECT_EQ(more.title, "Small");
    EXPECT_EQ(more.seeds.size(), 2U);
    EXPECT_THAT(more.job,
                testing::UnorderedElementsAre(Pair("data", "d.h5"), Pair("samples", "2000")));
    ASSERT_EQ(more.modes.size(), 2U);
    EXPECT_EQ(more.modes[0].name, "ssgd");
    EXPECT_FALSE(more.modes[0].versus);
    EXPECT_EQ(more.modes[1].name, "asgd");
    EXPECT_TRUE(more.modes[1].versus);
    EXPECT_THAT(more.modes[1].lr, ElementsAre(0.1, 0.2));
    ASSERT_EQ(more.patterns.size(), 3U);
    EXPECT_EQ(more.patterns[0].name, "persistent:2");
    EXPECT_EQ(more.patterns[2].name, "t.csv");
}

TEST(Experiment, ErrorsNameTheFileOfTheBaseThatTheyAreIn) {
    const TempFolder folder;
    replace_text_file(folder.file("e.toml"), "[job]\n\nsamples = \"nonsense\"\n");
    const auto error = [&](const std::string& text) {
        replace_text_file(folder.file("more.toml"), text);
        return test::message_of<UsageError>(
            [&] { return read_experiment(folder.file("more.toml"), {}, check_option); });
    };
    EXPECT_THAT(error("base = \"e.toml\"\n[[mode]]\nmode = \"ssgd\"\n"),
                HasSubstr("/e.toml, line 3, samples] value refused"));
    EXPECT_THAT(error("base = \"e.toml\"\n[[mode]]\nmode = \"ssgd\"\n[job]\nsamples = 1\n"
                      "wrong = 2\n"),
                HasSubstr("/more.toml, line 6, wrong] no such option"));
    EXPECT_THAT(error("base = \"./more.toml\"\n"), HasSubstr("based on each other"));
    EXPECT_THROW((void)error("base = \"missing.toml\"\n"), FileError);
}

TEST(Experiment, AMissingFileIsAFileError) {
    EXPECT_THROW((void)read_experiment("/nowhere/e.toml", {}, check_option), FileError);
}

}  // namespace
}  // namespace cohort
