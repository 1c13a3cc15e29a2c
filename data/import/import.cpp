// Import: which files, which format, which group; the formats do the rest.
#include "cohort/data/import.hpp"

#include "cohort/core/error.hpp"

#include "data/import/import_formats.hpp"
#include "data/import/zip_member.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <utility>

namespace cohort {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kTestWords{"test", "t10k", "val", "valid", "validation"};

void check_options(const ImportOptions& options) {
    const auto refuse = [](std::string_view what, std::string_view expected, std::string_view got) {
        fail<UsageError>({.where = "import", .what = what, .expected = expected, .got = got});
    };
    if (options.inputs.empty()) {
        refuse("no input", "a folder or files", "none");
    }
    if (options.output.empty()) {
        refuse("no output", "the name of an .h5 file", "none");
    }
    if (!(options.test_fraction >= 0.0 && options.test_fraction < 1.0)) {
        refuse("unusable test fraction", "0 or more, below 1",
               fmt::format("{}", options.test_fraction));
    }
    const ImportOptions plain;
    const bool text = options.format == ImportFormat::kText;
    if (text && (!options.shape.empty() || options.classes != 0 ||
                 options.label_column != plain.label_column)) {
        refuse("an option that text has not", "no --shape, --classes and --label-column",
               "--format text");
    }
    if (!options.target_columns.empty() && options.label_column != plain.label_column) {
        refuse("a label beside targets", "--label-column or --target-columns", "both");
    }
    if ((options.regression || !options.target_columns.empty()) && options.classes != 0) {
        refuse("classes beside targets", "no --classes", std::to_string(options.classes));
    }
    const bool folder = options.format == ImportFormat::kFolder;
    if (folder && (!options.shape.empty() || options.label_column != plain.label_column)) {
        refuse("an option that folders of images have not", "--size instead of --shape",
               "--format folder");
    }
    if (!folder && options.size) {
        refuse("an option of folders of images only", "--size with --format folder",
               word_of(options.format));
    }
    if (!text && (options.tokens != plain.tokens || options.vocabulary != plain.vocabulary ||
                  options.context != plain.context)) {
        refuse("an option of text only", "--tokens, --vocabulary and --context with --format text",
               word_of(options.format));
    }
}

/// Once the format is known.
void check_targets_of(ImportFormat format, const ImportOptions& options) {
    const bool csv = format == ImportFormat::kCsv;
    if ((options.regression && !csv && format != ImportFormat::kNpy) ||
        (!options.target_columns.empty() && !csv)) {
        fail<UsageError>({.where = "import",
                          .what = "an option that this format has not",
                          .expected = "--target-columns with csv, --regression with npy or csv",
                          .got = word_of(format)});
    }
}

std::vector<ImportFile> group_files(const std::vector<std::string>& paths,
                                    const ImportOptions& options) {
    std::vector<ImportFile> files;
    for (const std::string& path : paths) {
        const bool folder = options.format == ImportFormat::kFolder;
        const bool test = folder ? has_word(split_folder(options.inputs.front(), path), kTestWords)
                                 : has_word(path, kTestWords) ||
                                       has_word(split_zip_path(path).archive, kTestWords);
        files.push_back({path, test ? DatasetGroup::kTest : DatasetGroup::kTrain});
    }
    const bool has_test = std::ranges::any_of(
        files, [](const ImportFile& file) { return file.group == DatasetGroup::kTest; });
    if (has_test && options.test_fraction > 0) {
        fail<UsageError>({.where = "import",
                          .what = "a test fraction and test files",
                          .expected = "one of them",
                          .hint = "leaving --test-fraction out"});
    }
    if (!has_test && options.test_fraction == 0) {
        fail<UsageError>({.where = "import",
                          .what = "there is no test data",
                          .expected = "a file or folder whose name has the word test, or a share "
                                      "of the train samples",
                          .hint = "--test-fraction 0.1"});
    }
    return files;
}

/// Files of the disk: archives in place of their members.
std::vector<std::string> plain_files(std::vector<std::string> paths) {
    for (std::string& path : paths) {
        const ZipPath inside = split_zip_path(path);
        path = inside.archive.empty() ? path : inside.archive;
    }
    return paths;
}

/// Gives all samples to the sink. Returns ImportReport::note.
std::string read_files(ImportFormat format, const std::vector<ImportFile>& files,
                       const ImportOptions& options, ImportSink& sink) {
    switch (format) {
        case ImportFormat::kIdx: import_idx(files, sink); break;
        case ImportFormat::kCifar10:
        case ImportFormat::kCifar100: import_cifar(format, files, sink); break;
        case ImportFormat::kNpy: import_npy(files, options.regression, sink); break;
        case ImportFormat::kCsv: import_csv(files, options, sink); break;
        case ImportFormat::kFolder: return import_folder(files, options, sink);
        case ImportFormat::kText:
        case ImportFormat::kAuto: check_invariant(false, "the format is one of samples");
    }
    return "";
}

}  // namespace

std::string plain_name(const std::string& path) {
    std::string name = fs::path(path).filename().string();
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
}

std::vector<std::string> name_words(const std::string& path) {
    std::vector<std::string> words(1);
    for (const char c : fs::path(path).filename().string()) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
            words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        } else if (!words.back().empty()) {
            words.emplace_back();
        }
    }
    return words;
}

bool has_word(const std::string& path, std::span<const std::string_view> words) {
    const std::vector<std::string> own = name_words(path);
    return std::ranges::any_of(own, [&](const std::string& word) {
        return std::ranges::find(words, word) != words.end();
    });
}

std::vector<ImportPair> pair_files(const std::vector<ImportFile>& files,
                                   bool (*holds_labels)(const ImportFile&)) {
    std::vector<ImportFile> samples;
    std::vector<ImportFile> labels;
    for (const ImportFile& file : files) {
        (holds_labels(file) ? labels : samples).push_back(file);
    }
    std::vector<ImportPair> pairs;
    for (const DatasetGroup group : {DatasetGroup::kTrain, DatasetGroup::kTest}) {
        const auto of_group = [&](std::vector<ImportFile> some) {
            std::erase_if(some, [&](const ImportFile& file) { return file.group != group; });
            std::ranges::sort(
                some, [](const ImportFile& a, const ImportFile& b) { return a.path < b.path; });
            return some;
        };
        const std::vector<ImportFile> left = of_group(samples);
        const std::vector<ImportFile> right = of_group(labels);
        if (left.size() != right.size()) {
            const auto& longer = left.size() > right.size() ? left : right;
            fail<FileError>({.where = longer[std::min(left.size(), right.size())].path,
                             .what = "a file without its partner",
                             .expected = "as many files of labels as of samples",
                             .got = fmt::format("{} of samples and {} of labels for {}",
                                                left.size(), right.size(),
                                                group == DatasetGroup::kTrain ? "train" : "test")});
        }
        for (std::size_t i = 0; i < left.size(); ++i) {
            pairs.push_back({left[i], right[i]});
        }
    }
    return pairs;
}

ImportReport import_dataset(const ImportOptions& options, Hdf5Thread& thread) {
    check_options(options);
    ImportSelection selection = select_import_files(options);
    check_targets_of(selection.format, options);
    const OutputFile output = check_output({.option = "--output",
                                            .path = options.output,
                                            .overwrite = options.overwrite,
                                            .inputs = plain_files(selection.files)});
    check_folder_of(output);
    const std::vector<ImportFile> files = group_files(selection.files, options);
    ImportReport report;
    report.format = selection.format;
    const bool folder = report.format == ImportFormat::kFolder;
    if (folder) {
        report.files = options.inputs;
    } else {
        report.files = std::move(selection.files);
    }
    std::string source = fmt::format("{}:", word_of(report.format));
    for (const std::string& path : report.files) {
        source += " " + fs::path(path).filename().string();
    }
    if (report.format == ImportFormat::kText) {
        report.note = import_text(files, options, output, source, thread);
    } else {
        ImportSink sink(options, output, thread, std::move(source));
        if (sink.counting() && !folder) {
            static_cast<void>(read_files(report.format, files, options, sink));
            sink.draw_split();
        }
        report.note = read_files(report.format, files, options, sink);
        sink.commit();
    }
    report.train = open_dataset(options.output, "train", thread)->info();
    report.test = open_dataset(options.output, "test", thread)->info();
    return report;
}

}  // namespace cohort
