#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/data/import.hpp"
#include "jobs/cli/facts.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kMostChunk = 1'000'000'000;
constexpr std::int64_t kMostVocabulary = 1 << 24;
constexpr std::int64_t kMostContext = 1 << 20;

/// "3,32,32" -> {3, 32, 32}. Errors: UsageError.
std::vector<std::int64_t> parse_shape(const std::string& text) {
    std::vector<std::int64_t> shape;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        std::int64_t extent = 0;
        const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), extent);
        if (error != std::errc() || end != part.data() + part.size() || extent < 1) {
            fail<UsageError>({.where = "--shape",
                              .what = "cannot be understood",
                              .expected = "positive numbers, C,H,W or F",
                              .got = text});
        }
        shape.push_back(extent);
    }
    return shape;
}

/// "224x224"; empty: none. Errors: UsageError.
std::optional<std::pair<std::int64_t, std::int64_t>> parse_size(const std::string& text) {
    constexpr std::int64_t kMostSide = 16384;
    if (text.empty()) {
        return std::nullopt;
    }
    std::int64_t height = 0;
    std::int64_t width = 0;
    const char* const end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, height);
    const bool joined = first.ec == std::errc() && first.ptr != end && *first.ptr == 'x';
    const auto second = joined ? std::from_chars(first.ptr + 1, end, width) : first;
    if (!joined || second.ec != std::errc() || second.ptr != end || std::min(height, width) < 1 ||
        std::max(height, width) > kMostSide) {
        fail<UsageError>({.where = "--size",
                          .what = "cannot be understood",
                          .expected = fmt::format("HxW, each 1 to {}, such as 224x224", kMostSide),
                          .got = text});
    }
    return std::pair(height, width);
}

class ImportCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        value(app, "--format", format_, "Format of the input; auto: from names and contents")
            ->check(one_of({"auto", "idx", "cifar10", "cifar100", "npy", "csv", "folder", "text"}));
        app.add_option("--input", options_.inputs, "A folder, or files (repeatable); required")
            ->type_name("PATH");
        app.add_option("--output", options_.output, "The HDF5 file to write; required")
            ->type_name("FILE");
        app.add_flag("--overwrite", options_.overwrite, "Replace the file that --output names");
        app.add_option("--shape", shape_, "Sample shape to store, C,H,W or F; default: as found")
            ->type_name("C,H,W");
        value(app, "--classes", options_.classes, "Number of classes; 0: largest label plus one",
              {.least = 0, .most = std::numeric_limits<std::int32_t>::max()});
        value(app, "--chunk-samples", options_.chunk_samples,
              "Samples per stored chunk; 0: 256, fewer when large",
              {.least = 0, .most = kMostChunk});
        value(app, "--compress-level", options_.compress_level,
              "Compression of the samples by gzip; 0: none", {.least = 0, .most = 9});
        value(app, "--test-fraction", options_.test_fraction,
              "Share of the train samples that becomes the test group when the input has none",
              {.least = 0, .most = 1, .ends = Limits<double>::Ends::kNotMost});
        value(app, "--seed", options_.seed,
              "Seed of the draw for --test-fraction and of the order of a folder's images", {});
        value(app, "--label-column", options_.label_column,
              "CSV: name or number (from 0) of the label's column");
        app.add_option(
               "--target-columns", options_.target_columns,
               "CSV: names or numbers of columns with numbers to predict, in place of a label")
            ->delimiter(',')
            ->type_name("COLUMNS");
        app.add_flag("--regression", options_.regression,
                     "NumPy, CSV: integer labels or the label's column are numbers to predict, as "
                     "NumPy labels in floating point always are");
        app.add_option("--size", size_,
                       "Folder: height and width of stored images; default: that of all of them")
            ->type_name("HxW");
        value(app, "--tokens", options_.tokens,
              "Text: words, bytes, or a tokenizer.json of byte-level BPE")
            ->type_name("WHAT");
        value(app, "--vocabulary", options_.vocabulary,
              "Text: most frequent words that are kept, others become <unk>; 0: all",
              {.least = 0, .most = kMostVocabulary});
        value(app, "--context", options_.context, "Text: tokens of a sample",
              {.least = 1, .most = kMostContext});
    }

    ExitCode run(const CommandContext& context) override {
        need(!options_.inputs.empty() && !options_.output.empty(), "cohort import",
             "input and output are needed", "--input PATH --output FILE");
        refuse_input("--output", options_.output, {context.config});
        options_.format = parse_word<ImportFormat>(format_, "import", "unknown format");
        options_.shape = parse_shape(shape_);
        options_.size = parse_size(size_);
        Hdf5Thread hdf5;
        const ImportReport report = import_dataset(options_, hdf5);
        print_line("{}: format {}, read {}", options_.output, word_of(report.format),
                   fmt::join(report.files, ", "));
        print_line("{}", dataset_facts("train", report.train));
        print_line("{}", dataset_facts("test", report.test));
        if (!report.note.empty()) {
            print_line("{}", report.note);
        }
        return ExitCode::kDone;
    }

private:
    ImportOptions options_;
    std::string format_ = "auto";
    std::string shape_;
    std::string size_;
};

}  // namespace

void add_import_command(const CommandGroup& all) {
    all.add<ImportCommand>("import", "Convert data to the HDF5 layout that training reads");
}

}  // namespace cohort
