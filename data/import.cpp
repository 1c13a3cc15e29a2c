// Import: which files, which format, which group; the formats do the rest.
#include "cohort/data/import.hpp"

#include "cohort/core/error.hpp"

#include "import_formats.hpp"
#include "import_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace cohort {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kTestWords{"test", "t10k", "val", "valid", "validation"};

constexpr std::array<std::pair<std::string_view, ImportFormat>, 6> kFormats{
    {{"auto", ImportFormat::kAuto},
     {"idx", ImportFormat::kIdx},
     {"cifar10", ImportFormat::kCifar10},
     {"cifar100", ImportFormat::kCifar100},
     {"npy", ImportFormat::kNpy},
     {"csv", ImportFormat::kCsv}}};

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
}

/// The format that a file's first bytes and name tell; nothing for other files.
std::optional<ImportFormat> format_of(const std::string& path) {
    InputStream stream(path);
    std::array<std::byte, 8> start{};
    const auto read = std::span(start).first(stream.read_some(start));
    const std::vector<std::string> words = name_words(path);
    const auto named = [&](std::string_view word) {
        return std::find(words.begin(), words.end(), word) != words.end();
    };
    if (looks_like_npy(read)) {
        return ImportFormat::kNpy;
    }
    if (named("csv")) {
        return ImportFormat::kCsv;
    }
    if (named("bin")) {
        const std::uintmax_t bytes = fs::file_size(path);
        if (bytes > 0 && bytes % 3073 == 0 && (bytes % 3074 != 0 || named("batch"))) {
            return ImportFormat::kCifar10;
        }
        if (bytes > 0 && bytes % 3074 == 0) {
            return ImportFormat::kCifar100;
        }
    }
    return looks_like_idx(read) ? std::optional(ImportFormat::kIdx) : std::nullopt;
}

struct Inputs {
    std::vector<std::string> files;
    bool from_folder = false;
};

/// The files given, or all regular files of the folder given, by name. Of a file and its packed
/// twin (NAME and NAME.gz) in a folder, the plain one is taken.
Inputs list_inputs(const ImportOptions& options) {
    Inputs inputs;
    std::error_code error;
    inputs.from_folder =
        options.inputs.size() == 1 && fs::is_directory(options.inputs.front(), error);
    if (!inputs.from_folder) {
        inputs.files = options.inputs;
        return inputs;
    }
    const std::string& folder = options.inputs.front();
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        if (at->is_regular_file(error) && !at->path().filename().string().starts_with('.')) {
            inputs.files.push_back(at->path().string());
        }
    }
    if (error) {
        fail<FileError>(
            {.where = folder, .what = "cannot list the folder", .got = error.message()});
    }
    std::sort(inputs.files.begin(), inputs.files.end());
    const std::vector<std::string> all = inputs.files;
    std::erase_if(inputs.files, [&](const std::string& path) {
        return path.ends_with(".gz") &&
               std::binary_search(all.begin(), all.end(), path.substr(0, path.size() - 3));
    });
    return inputs;
}

using KnownFiles = std::vector<std::pair<std::string, ImportFormat>>;

/// The files of known format. Others are passed over in a folder, refused when given by name.
KnownFiles known_files(const Inputs& inputs) {
    KnownFiles known;
    for (const std::string& path : inputs.files) {
        if (const auto format = format_of(path)) {
            known.emplace_back(path, *format);
        } else if (!inputs.from_folder) {
            fail<FileError>({.where = path,
                             .what = "unknown format",
                             .expected = "IDX, CIFAR binary, NumPy or CSV",
                             .got = "none of them",
                             .hint = "--format"});
        }
    }
    return known;
}

/// The one format of all files; kAuto when there are none.
ImportFormat common_format(const KnownFiles& known) {
    const ImportFormat format = known.empty() ? ImportFormat::kAuto : known.front().second;
    for (const auto& [path, other] : known) {
        if (other != format) {
            fail<UsageError>(
                {.where = "import",
                 .what = fmt::format("several formats: {} is {}, {} is {}", known.front().first,
                                     import_format_name(format), path, import_format_name(other)),
                 .hint = "--format"});
        }
    }
    return format;
}

/// Settles the format and drops what a folder holds besides.
ImportFormat choose_format(Inputs& inputs, const ImportOptions& options) {
    const bool automatic = options.format == ImportFormat::kAuto;
    if (!automatic && !inputs.from_folder) {
        return options.format;
    }
    const KnownFiles known = known_files(inputs);
    const ImportFormat format = automatic ? common_format(known) : options.format;
    inputs.files.clear();
    for (const auto& [path, other] : known) {
        if (other == format) {
            inputs.files.push_back(path);
        }
    }
    if (inputs.files.empty()) {
        fail<FileError>(
            {.where = options.inputs.front(),
             .what = "the folder holds nothing to import",
             .expected = format == ImportFormat::kAuto
                             ? "IDX, CIFAR binary, NumPy or CSV files"
                             : fmt::format("files of format {}", import_format_name(format))});
    }
    return format;
}

std::vector<ImportFile> group_files(const Inputs& inputs, const ImportOptions& options) {
    std::vector<ImportFile> files;
    for (const std::string& path : inputs.files) {
        files.push_back(
            {path, has_word(path, kTestWords) ? DatasetGroup::kTest : DatasetGroup::kTrain});
    }
    const bool has_test = std::any_of(files.begin(), files.end(), [](const ImportFile& file) {
        return file.group == DatasetGroup::kTest;
    });
    if (has_test && options.test_fraction > 0) {
        fail<UsageError>({.where = "import",
                          .what = "a test fraction and test files",
                          .expected = "one of them",
                          .hint = "leaving --test-fraction out"});
    }
    if (!has_test && options.test_fraction == 0) {
        fail<UsageError>({.where = "import",
                          .what = "there is no test data",
                          .expected = "a file whose name has the word test, or a share of the "
                                      "train samples",
                          .hint = "--test-fraction 0.1"});
    }
    return files;
}

void read_files(ImportFormat format, const std::vector<ImportFile>& files,
                const ImportOptions& options, ImportSink& sink) {
    switch (format) {
        case ImportFormat::kIdx: return import_idx(files, sink);
        case ImportFormat::kCifar10: return import_cifar10(files, sink);
        case ImportFormat::kCifar100: return import_cifar100(files, sink);
        case ImportFormat::kNpy: return import_npy(files, sink);
        case ImportFormat::kCsv: return import_csv(files, options.label_column, sink);
        case ImportFormat::kAuto: break;
    }
    check_invariant(false, "the format is settled");
}

}  // namespace

ImportFormat parse_import_format(std::string_view name) {
    for (const auto& [known, format] : kFormats) {
        if (known == name) {
            return format;
        }
    }
    fail<UsageError>({.where = "import",
                      .what = "unknown format",
                      .expected = "auto, idx, cifar10, cifar100, npy or csv",
                      .got = name});
}

std::string_view import_format_name(ImportFormat format) noexcept {
    const auto at = std::find_if(kFormats.begin(), kFormats.end(),
                                 [&](const auto& entry) { return entry.second == format; });
    return at == kFormats.end() ? "unknown" : at->first;
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
    return std::any_of(own.begin(), own.end(), [&](const std::string& word) {
        return std::find(words.begin(), words.end(), word) != words.end();
    });
}

std::vector<ImportPair> pair_files(const std::vector<ImportFile>& samples,
                                   const std::vector<ImportFile>& labels) {
    std::vector<ImportPair> pairs;
    for (const DatasetGroup group : {DatasetGroup::kTrain, DatasetGroup::kTest}) {
        const auto of_group = [&](std::vector<ImportFile> files) {
            std::erase_if(files, [&](const ImportFile& file) { return file.group != group; });
            std::sort(files.begin(), files.end(),
                      [](const ImportFile& a, const ImportFile& b) { return a.path < b.path; });
            return files;
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
    Inputs inputs = list_inputs(options);
    ImportReport report;
    report.format = choose_format(inputs, options);
    report.files = inputs.files;
    const std::vector<ImportFile> files = group_files(inputs, options);
    std::string source = fmt::format("{}:", import_format_name(report.format));
    for (const std::string& path : inputs.files) {
        source += " " + fs::path(path).filename().string();
    }
    ImportSink sink(options, thread, std::move(source));
    read_files(report.format, files, options, sink);
    sink.commit();
    report.train = open_dataset(options.output, "train", thread)->info();
    report.test = open_dataset(options.output, "test", thread)->info();
    return report;
}

}  // namespace cohort
