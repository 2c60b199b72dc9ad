"""Spark and Ray on Slurm: the modules of slurm-cluster, which require only Python 3.8."""
