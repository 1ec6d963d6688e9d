# 1,500 random reads of 4 KiB in the four largest files, one after the other, as lookups in tables are: run by `bash -l` in the warmed root. Fixed:
# a result names the revision that it is of.
set -eu
cd /usr/lib
perl -e '
  srand(1);
  my @tables = map { open(my $file, "<:raw", $_) or die "$_: $!"; [$file, int((-s $_) / 4096)] } @ARGV;
  for (1 .. 1500) {
    my ($file, $pages) = @{$tables[int(rand(@tables))]};
    sysseek($file, 4096 * int(rand($pages)), 0) && sysread($file, my $page, 4096) == 4096 or die $!;
  }' jvm/java-17-openjdk-amd64/lib/modules x86_64-linux-gnu/libLLVM-14.so.1 llvm-14/lib/libclang-cpp.so.14 x86_64-linux-gnu/libnode.so.108
