#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "cohort/core/error.hpp"
#include "command_line.hpp"
#include "config_file.hpp"
#include "support/temp_folder.hpp"
#include "train_options.hpp"

namespace cohort {
namespace {

using testing::Contains;
using testing::HasSubstr;

class ConfigFile : public testing::Test {
protected:
    void SetUp() override { declare_train_options(app, options); }

    /// Parses a command line, then the config file's arguments before it, as the program does.
    void parse(std::vector<std::string> arguments, const std::string& config_text) {
        std::ofstream(path) << config_text;
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
        const auto added = arguments_from_config(path, app, from_file);
        arguments.insert(arguments.begin(), added.begin(), added.end());
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    }

    std::string origin(const std::string& name) const {
        for (const EffectiveOption& option : effective_options(app, from_file, "job.toml")) {
            if (option.name == name) {
                return option.value + " from " + option.origin;
            }
        }
        return "missing";
    }

    TempFolder folder;
    std::string path = folder.file("job.toml");
    CLI::App app{"", "train"};
    TrainOptions options;
    std::vector<std::string> from_file;
};

TEST_F(ConfigFile, CommandLineWinsOverFileOverDefault) {
    parse({"--lr", "0.5", "--nesterov"}, R"(# a job
lr = 0.1
batch = 32
lr-schedule = "step:0.1@1000,2000"
deterministic = true
resume = false
)");
    EXPECT_EQ(options.lr, 0.5);
    EXPECT_EQ(options.batch, 32);
    EXPECT_EQ(options.lr_schedule, "step:0.1@1000,2000");
    EXPECT_TRUE(options.deterministic);
    EXPECT_TRUE(options.nesterov);
    EXPECT_FALSE(options.resume);
    EXPECT_EQ(options.momentum, 0.9);
    EXPECT_EQ(origin("lr"), "0.5 from command line");
    EXPECT_EQ(origin("batch"), "32 from job.toml");
    EXPECT_EQ(origin("deterministic"), "true from job.toml");
    EXPECT_EQ(origin("momentum"), "0.9 from default");
}

TEST_F(ConfigFile, SectionOfTheCommandIsRead) {
    parse({}, "[train]\nbatch = 7\n");
    EXPECT_EQ(options.batch, 7);
}

TEST_F(ConfigFile, UnknownKeysSectionsAndValuesAreErrors) {
    EXPECT_THROW(parse({}, "batchsize = 7\n"), UsageError);
    EXPECT_THROW(parse({}, "[eval]\nbatch = 7\n"), UsageError);
    EXPECT_THROW(parse({}, "nesterov = 1\n"), UsageError);
    EXPECT_THROW(parse({}, "help = true\n"), UsageError);
    EXPECT_THROW(parse({}, "batch = many\n"), CLI::ParseError);
    EXPECT_THROW((void)arguments_from_config(folder.file("none"), app, from_file), FileError);
    EXPECT_THROW((void)arguments_from_config(folder.path(), app, from_file), FileError);
}

TEST_F(ConfigFile, DumpedOptionsComeBackTheSame) {
    parse({"--data", "my data.h5", "--lr", "1e-3", "--lr-schedule", "step:0.1@10,20"}, "");
    const std::string text = config_text(effective_options(app, from_file, ""));
    EXPECT_THAT(text, HasSubstr("data = \"my data.h5\""));
    EXPECT_THAT(text, HasSubstr("batch = 128"));
    CLI::App again{"", "train"};
    TrainOptions read;
    declare_train_options(again, read);
    std::ofstream(path) << text;
    std::vector<std::string> names;
    auto arguments = arguments_from_config(path, again, names);
    std::reverse(arguments.begin(), arguments.end());
    again.parse(arguments);
    EXPECT_EQ(read.data, "my data.h5");
    EXPECT_EQ(read.lr, 1e-3);
    EXPECT_EQ(read.lr_schedule, "step:0.1@10,20");
    EXPECT_THAT(names, Contains("seed"));
}

TEST_F(ConfigFile, ListsKeepTheirEntries) {
    std::vector<std::string> inputs;
    app.add_option("--input", inputs);
    parse({}, "input = [\"a b.npy\", \"c,d.npy\"]\n");
    EXPECT_EQ(inputs, (std::vector<std::string>{"a b.npy", "c,d.npy"}));
    EXPECT_EQ(origin("input"), "[\"a b.npy\",\"c,d.npy\"] from job.toml");
    EXPECT_THAT(config_text(effective_options(app, from_file, "")),
                HasSubstr("input = [\"a b.npy\",\"c,d.npy\"]\n"));
}

TEST(CommandLineTest, MarkdownListsEveryCommandWithDefaults) {
    const std::string text = CommandLine().markdown();
    for (const char* part : {"## cohort train", "## cohort eval", "## cohort import",
                             "## cohort info", "## cohort bench engine", "| `--momentum` |"}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
}

}  // namespace
}  // namespace cohort
